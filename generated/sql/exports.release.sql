/* exports.release */
update exports row set status = 'waiting', lease_id = null, leased_until = now() + $1::int * interval '1 millisecond',
  attempts = "row"."attempts" - $2::bool::int, side_changes = "row"."side_changes" + 1, updated_at = greatest(clock_timestamp(), "row"."created_at")
where "row"."id" = $3::uuid and "row"."lease_id" = $4::uuid and "row"."status" = 'running';
