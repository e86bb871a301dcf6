/* reminders.keep_time_zones_of_tasks */
select "users"."id"::text from users
where "users"."id" in (select user_id from reminders where "reminders"."task_id" = any((select $1::uuid[])::uuid[]) and "reminders"."relative_to" is not null)
order by "users"."id" for share;
