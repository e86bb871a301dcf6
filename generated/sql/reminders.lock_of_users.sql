/* reminders.lock_of_users */
select "reminders"."id"::text from reminders where "reminders"."user_id" = any((select $1::uuid[])::uuid[]) and "reminders"."fires_at" is not null and "reminders"."relative_to" is not null order by "reminders"."id" for no key update;
