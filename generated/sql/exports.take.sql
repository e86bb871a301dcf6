/* exports.take */
      with next as materialized (
        select "row"."id", coalesce("person"."sign_in_due_at" <= now(), false) as rests
        from exports row join users person on "person"."id" = "row"."requested_by"
        where ("row"."status" in ('waiting', 'running') and coalesce("row"."leased_until" <= now(), true)) and (
  (select count(*) < 3 and count(*) filter (where running.kind = 'export') < 2 from (
  select 'export' as kind, requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select 'import', user_id from imports where lease_id is not null and leased_until > now()
) running)
  and not exists (select from (
  select 'export' as kind, requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select 'import', user_id from imports where lease_id is not null and leased_until > now()
) running where running.user_id = "row"."requested_by"))
          and not exists (
      select from exports other
      where "other"."requested_by" = "row"."requested_by" and "other"."status" = 'running' and "other"."id" <> "row"."id")
        order by (
  (select coalesce(sum("used_export"."renewals"), 0) from exports used_export
    where "used_export"."requested_by" = "row"."requested_by" and (("used_export"."status" in ('waiting', 'running')) or "used_export"."updated_at" > now() - interval '1 hour'))
  + (select coalesce(sum("used_import"."renewals"), 0) from imports used_import
    where "used_import"."user_id" = "row"."requested_by" and (("used_import"."status" in ('reading', 'running', 'undoing', 'discarding')) or "used_import"."updated_at" > now() - interval '1 hour'))), "row"."created_at" limit 1 for update of row skip locked
      ), taken as (update "exports" "row" set "status" = case when (not next.rests and "row"."attempts" < 3) then 'running' else 'failed' end, "done" = 0, "total" = null, "attempts" = "row"."attempts" + 1, "renewals" = "row"."renewals" + 1, "lease_id" = $1::uuid, "leased_until" = now() + $2::int * interval '1 millisecond', "failure" = case when (not next.rests and "row"."attempts" < 3) then null when next.rests then 'sign_in_required' else 'interrupted' end, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at"), "finished_at" = case when (not next.rests and "row"."attempts" < 3) then null else clock_timestamp() end from next where "row"."id" = next.id returning "row"."id", "row"."requested_by", "row"."user_id", "row"."project_id", "row"."attempts", "row"."status"), failed as materialized (select * from taken where taken.status = 'failed'),
      recorded as materialized (
    select ended.*, record_event_for(ended.requested_by, 'export.finished', null, null, null, null, ended.id, '{}',
      jsonb_build_object('status', 'failed')) as event_id from failed ended
  ), notified as (
    insert into notifications (id, user_id, reason, event_id, export_id, created_at)
    select event_id(clock_timestamp(), row_number() over ()), requested_by, 'export', event_id, recorded.id, clock_timestamp()
    from recorded join users person on "person"."id" = requested_by and "person"."deleted_at" is null
  )
      select taken.id::text, taken.requested_by::text, taken.user_id::text, taken.project_id::text, "person"."time_zone", taken.attempts
      from taken join users person on "person"."id" = taken.user_id
      where taken.status = 'running' and (select count(*) from recorded) = 0;
