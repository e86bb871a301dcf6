/* file_holds.end */ delete from leases where starts_with("leases"."name", 'file_hold/') and "leases"."holder" = $1::uuid;
