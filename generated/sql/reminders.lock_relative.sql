/* reminders.lock_relative */
select "reminders"."id"::text from reminders where (
"reminders"."task_id" = any($1::uuid[]) and "reminders"."relative_to" = 'due'
or "reminders"."task_id" = any($2::uuid[]) and "reminders"."relative_to" = 'start') order by "reminders"."id" for no key update;
