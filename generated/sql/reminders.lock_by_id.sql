/* reminders.lock_by_id */
select "reminders"."id"::text from reminders where "reminders"."id" = any((select $1::uuid[])::uuid[]) order by "reminders"."id" for no key update;
