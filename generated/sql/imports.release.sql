/* imports.release */
update imports row set lease_id = null, leased_until = now() + $1::int * interval '1 millisecond',
  attempts = "row"."attempts" - $2::bool::int
where "row"."id" = $3::uuid and "row"."lease_id" = $4::uuid;
