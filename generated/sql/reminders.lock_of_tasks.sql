/* reminders.lock_of_tasks */
select "reminders"."id"::text from reminders where "reminders"."task_id" = any((select $1::uuid[])::uuid[]) and "reminders"."relative_to" is not null order by "reminders"."id" for no key update;
