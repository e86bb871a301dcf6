/* task_locks.select_related */
select task_id::text as id from task_relations where task_id = any((select $1::uuid[])::uuid[])
union select other_task_id::text from task_relations where other_task_id = any((select $1::uuid[])::uuid[])
union select reminder.task_id::text from reminders reminder
where reminder.task_id = any((select $1::uuid[])::uuid[]) and (reminder.snoozed_until is not null or not exists (
  select from tasks repeated join reminders original on original.task_id = repeated.id
  where repeated.next_task_id = reminder.task_id and original.user_id = reminder.user_id
    and (original.relative_to, original.offset_minutes, original.time_of_day)
      = (reminder.relative_to, reminder.offset_minutes, reminder.time_of_day)));
