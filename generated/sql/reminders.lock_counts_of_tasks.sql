/* reminders.lock_counts_of_tasks */
select pg_advisory_xact_lock(hashtextextended('reminders ' || users.user_id::text, 0))::text as locked from (
  select distinct user_id from reminders where "reminders"."task_id" = any((select $1::uuid[])::uuid[]) and "reminders"."relative_to" is not null
  order by user_id
) users;
