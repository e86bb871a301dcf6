/* imports.renew */ with changed as (
update imports row set leased_until = now() + $1::int * interval '1 millisecond', renewals = "row"."renewals" + 1, done = $2::int, total = $3::int
where "row"."id" = $4::uuid and "row"."lease_id" = $5::uuid returning 1) select count(*) as changed from changed;
