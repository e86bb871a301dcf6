/* exports.fail */
  with failed as (update "exports" "row" set "status" = 'failed', "lease_id" = null, "leased_until" = null, "failure" = $1::text, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at"), "finished_at" = clock_timestamp() where "row"."id" = $2::uuid and "row"."lease_id" = $3::uuid and "row"."status" = 'running' returning "id", "requested_by"),
  recorded as materialized (
  select ended.*, record_event_for(ended.requested_by, 'export.finished', null, null, null, null, ended.id, '{}',
    jsonb_build_object('status', 'failed')) as event_id from failed ended
), notified as (
  insert into notifications (id, user_id, reason, event_id, export_id, created_at)
  select event_id(clock_timestamp(), row_number() over ()), requested_by, 'export', event_id, recorded.id, clock_timestamp()
  from recorded join users person on "person"."id" = requested_by and "person"."deleted_at" is null
)
  select count(*) as failed from failed left join recorded on true;
