/* reminders.copy */
  with each_once as materialized (
    select distinct on (copy.to_id, "reminder"."user_id", "reminder"."relative_to", "reminder"."offset_minutes", "reminder"."time_of_day")
      reminder.*, copy.from_id, copy.to_id
    from unnest($1::uuid[], $2::uuid[]) as copy (from_id, to_id) join reminders reminder on "reminder"."task_id" = copy.from_id
      join tasks task on "task"."id" = copy.to_id
      join users person on "person"."id" = "reminder"."user_id" and "person"."deleted_at" is null and not "person"."is_disabled"
    where "reminder"."relative_to" is not null and ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))
  ), wanted as materialized (
    select *, row_number() over (partition by user_id order by to_id, id) as number from each_once
  ), room as materialized (
    select users.user_id, least(1000 -
(select count(*)::int from reminders counted join tasks reminded on reminded.id = counted.task_id
where counted.user_id = users.user_id and reminded.status in ('todo', 'in_progress')),
      10000 -
(select count(*)::int from reminders counted where counted.user_id = users.user_id)) as room
    from (select distinct user_id from wanted) users
  ), fitted as materialized (
    select wanted.*, number <= room as fits from wanted join room using (user_id)
  ), recorded as materialized (
    select left_out.*, record_event_for(user_id, 'task.reminder_limit', to_id, "task"."project_id", "task"."owner_id",
      "task"."assignee_id", from_id, '{}', '{}') as event_id
    from (select distinct user_id, from_id, to_id from fitted where not fits order by user_id, to_id) left_out
      join tasks task on "task"."id" = to_id
  ), notified as (
    insert into notifications (id, user_id, reason, event_id, task_id, created_at)
    select event_id(clock_timestamp(), row_number() over ()), user_id, 'reminder_limit', event_id, to_id, clock_timestamp() from recorded
  )
  insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
  select event_id(clock_timestamp(), row_number() over (order by to_id, id)), to_id, user_id, relative_to, offset_minutes, time_of_day
  from fitted where fits
  returning id::text;
