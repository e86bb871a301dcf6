/* exports.renew */ with changed as (
  update exports row set leased_until = now() + $1::int * interval '1 millisecond', renewals = "row"."renewals" + 1, done = $2::int, total = $3::int
  where "row"."id" = $4::uuid and "row"."lease_id" = $5::uuid and "row"."status" = 'running' and (
exists (
  select from users person where "person"."id" = "row"."requested_by" and "person"."deleted_at" is null and not "person"."is_disabled"
    and ("row"."requested_by" = "row"."user_id" or "person"."role" = 'admin'))
and exists (select from users person where "person"."id" = "row"."user_id" and "person"."deleted_at" is null)
and ("row"."project_id" is null or exists (
  select from memberships membership
  where "membership"."user_id" = "row"."user_id" and "membership"."project_id" = "row"."project_id"
    and "membership"."role" in ('manager')))) returning 1) select count(*) as changed from changed;
