/* file_holds.renew */
update leases set expires_at = now() + interval '60 minutes'
where starts_with("leases"."name", 'file_hold/') and "leases"."holder" = $1::uuid and "leases"."expires_at" > now() returning "leases"."holder"::text as holder;
