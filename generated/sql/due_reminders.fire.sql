/* due_reminders.fire */
  with due as materialized (
    select reminder.*, "task"."project_id", "task"."owner_id", "task"."assignee_id",
      "person"."deleted_at" is null and not "person"."is_disabled" and "task"."status" in ('todo', 'in_progress')
        and ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) as is_wanted,
      clock_timestamp() - "reminder"."fires_at" as late
    from reminders reminder join tasks task on "task"."id" = "reminder"."task_id"
      join users person on "person"."id" = "reminder"."user_id"
    where "reminder"."fires_at" <= now() and "reminder"."fires_at" <= case
when "reminder"."updated_at" > (select coalesce("retention"."skipped_from" + interval '1 minute', "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention) then now()
else
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) end
      and not exists (
        select from projects where "projects"."id" = "task"."project_id" and "projects"."filling_import_id" is not null)
    order by "reminder"."fires_at", "reminder"."id" limit 50
    for no key update of reminder skip locked for key share of task, person skip locked
  ), recorded as materialized (
    select due.*, case when late <= interval '24 hours'
      then record_event_for(user_id, 'task.reminder', task_id, project_id, owner_id, assignee_id, id, '{}',
        jsonb_build_object('remind_at', to_char(fires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
      else event_id(clock_timestamp(), nextval('events_ordinal_seq')) end as event_id
    from due where is_wanted order by fires_at, id
  ), notified as (
    insert into notifications (id, user_id, reason, event_id, task_id, reminder_id, created_at)
    select event_id(clock_timestamp(), row_number() over ()), user_id, 'reminder', event_id, task_id, id, clock_timestamp()
    from recorded
  ), fired as (update "reminders" "reminder" set "fires_at" = null, "fired_at" = case when due.is_wanted then clock_timestamp() else "reminder"."fired_at" end, "late_seconds" = case when due.is_wanted then greatest(floor(extract(epoch from due.late)), 0)::int
        else "reminder"."late_seconds" end, "is_mail_due" = due.is_wanted and due.late <= interval '24 hours' and exists (
        select from notification_settings settings where "settings"."user_id" = due.user_id and "settings"."mail_reminders"), "side_changes" = "reminder"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "reminder"."created_at") from due where "reminder"."id" = due.id)
  select count(*) as due from due;
