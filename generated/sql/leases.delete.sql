/* leases.delete */ delete from leases where name = $1::text and holder = $2::uuid;
