/* leases.renew */
update leases set expires_at = now() + $1::int * interval '1 millisecond'
where name = $2::text and holder = $3::uuid returning name;
