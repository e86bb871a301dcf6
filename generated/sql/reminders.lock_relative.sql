/* reminders.lock_relative */
select "reminders"."id"::text from reminders where (
"reminders"."task_id" = any((select $1::uuid[])::uuid[]) and "reminders"."relative_to" = 'due'
or "reminders"."task_id" = any((select $2::uuid[])::uuid[]) and "reminders"."relative_to" = 'start') order by "reminders"."id" for no key update;
