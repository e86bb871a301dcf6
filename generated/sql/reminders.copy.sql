/* reminders.copy */
insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
select event_id(clock_timestamp(), row_number() over (order by copy.to_id, "reminder"."id")),
  copy.to_id, user_id, relative_to, offset_minutes, time_of_day
from unnest($1::uuid[], $2::uuid[]) as copy (from_id, to_id) join reminders reminder on "reminder"."task_id" = copy.from_id
where "reminder"."relative_to" is not null
returning id::text;
