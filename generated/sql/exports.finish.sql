/* exports.finish */
  with finished as (update "exports" "row" set "status" = 'finished', "done" = $1::int, "total" = $1::int, "lease_id" = null, "leased_until" = null, "storage_key" = $2::text, "size" = $3::bigint, "sha256" = $4::text, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at"), "finished_at" = clock_timestamp(), "expires_at" = now() + make_interval(days => $5::int) where "row"."id" = $6::uuid and "row"."lease_id" = $7::uuid and "row"."status" = 'running' and (
exists (
  select from users person where "person"."id" = "row"."requested_by" and "person"."deleted_at" is null and not "person"."is_disabled"
    and ("row"."requested_by" = "row"."user_id" or "person"."role" = 'admin'))
and exists (select from users person where "person"."id" = "row"."user_id" and "person"."deleted_at" is null)
and ("row"."project_id" is null or exists (
  select from memberships membership
  where "membership"."user_id" = "row"."user_id" and "membership"."project_id" = "row"."project_id"
    and "membership"."role" in ('manager')))) returning "id", "requested_by"),
  recorded as materialized (
  select ended.*, record_event_for(ended.requested_by, 'export.finished', null, null, null, null, ended.id, '{}',
    jsonb_build_object('status', 'finished')) as event_id from finished ended
), notified as (
  insert into notifications (id, user_id, reason, event_id, export_id, created_at)
  select event_id(clock_timestamp(), row_number() over ()), requested_by, 'export', event_id, recorded.id, clock_timestamp()
  from recorded join users person on "person"."id" = requested_by and "person"."deleted_at" is null
),
  old as materialized (
    select "other"."id", "other"."storage_key" from finished join exports other
      on "other"."requested_by" = finished.requested_by and "other"."storage_key" is not null
    order by "other"."created_at" desc, "other"."id" desc offset 2
    for update of other skip locked
  ), marked as (update "exports" "row" set "status" = 'expired', "storage_key" = null, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at") from old where "row"."id" = old.id), removed as (
    insert into file_deletions (storage_key) select storage_key from old
  )
  select count(*) as finished from finished left join recorded on true;
