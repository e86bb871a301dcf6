/* imports.end */
with ended as (update "imports" "row" set "status" = $1::text, "failure" = $2::text, "result" = coalesce($3::text::jsonb, "row"."result"), "done" = coalesce($4::int, "row"."done"), "total" = coalesce($4::int, "row"."total"), "lease_id" = null, "leased_until" = null, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at"), "finished_at" = clock_timestamp() where "row"."id" = $5::uuid returning "id", "user_id", "deleted_at"), recorded as materialized (
  select ended.*, record_event_for(ended.user_id, 'import.finished', null, null, null, null, ended.id, '{}',
    jsonb_build_object('status', $1::text::text)) as event_id
  from ended join users person on "person"."id" = ended.user_id and "person"."deleted_at" is null where ended.deleted_at is null
), notified as (
  insert into notifications (id, user_id, reason, event_id, import_id, created_at)
  select event_id(clock_timestamp(), 0), user_id, 'import', event_id, recorded.id, clock_timestamp()
  from recorded where $1::text in ('finished', 'failed')
)
select count(*) as ended from recorded;
