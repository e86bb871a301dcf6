/* reminders.lock_of_user */
select "reminders"."id"::text from reminders where "reminders"."user_id" = $1::uuid order by "reminders"."id" for no key update;
