/* exports.expire */ with
  old as materialized (
    select "row"."id", "row"."storage_key" from exports row
    where "row"."storage_key" is not null and ("row"."expires_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) or not (
exists (
  select from users person where "person"."id" = "row"."requested_by" and "person"."deleted_at" is null and not "person"."is_disabled"
    and ("row"."requested_by" = "row"."user_id" or "person"."role" = 'admin'))
and exists (select from users person where "person"."id" = "row"."user_id" and "person"."deleted_at" is null)
and ("row"."project_id" is null or exists (
  select from memberships membership
  where "membership"."user_id" = "row"."user_id" and "membership"."project_id" = "row"."project_id"
    and "membership"."role" in ('manager')))))
    limit 100 for update skip locked
  ), marked as (update "exports" "row" set "status" = 'expired', "storage_key" = null, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at") from old where "row"."id" = old.id),
  expired as (select storage_key from old), changed as (
  insert into file_deletions (storage_key) select storage_key from expired returning 1) select count(*) as changed from changed;
