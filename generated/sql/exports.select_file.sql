/* exports.select_file */
  select "row"."storage_key", "row"."size", "row"."sha256", "row"."status", "row"."finished_at"::text, "row"."user_id"::text,
    (
exists (
  select from users person where "person"."id" = "row"."requested_by" and "person"."deleted_at" is null and not "person"."is_disabled"
    and ("row"."requested_by" = "row"."user_id" or "person"."role" = 'admin'))
and exists (select from users person where "person"."id" = "row"."user_id" and "person"."deleted_at" is null)
and ("row"."project_id" is null or exists (
  select from memberships membership
  where "membership"."user_id" = "row"."user_id" and "membership"."project_id" = "row"."project_id"
    and "membership"."role" in ('manager')))) as is_allowed, coalesce("person"."sign_in_due_at" <= now(), false) as rests
  from exports row join users person on "person"."id" = "row"."requested_by" where "row"."id" = $1::uuid and ("row"."requested_by" = $2::uuid);
