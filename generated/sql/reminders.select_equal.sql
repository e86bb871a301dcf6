/* reminders.select_equal */
select "reminders"."id"::text from reminders where "reminders"."task_id" = $1::uuid and "reminders"."user_id" = $2::uuid
  and ("reminders"."at", "reminders"."relative_to", "reminders"."offset_minutes", "reminders"."time_of_day")
    is not distinct from ($3::timestamptz, $4::text, $5::int, $6::text)
limit 1;
