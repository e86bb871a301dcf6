/* task_locks.select_related */
select task_id::text as id from task_relations where task_id = any((select $1::uuid[])::uuid[])
union select other_task_id::text from task_relations where other_task_id = any((select $1::uuid[])::uuid[])
union select reminder.task_id::text from reminders reminder join tasks task on task.id = reminder.task_id
where reminder.task_id = any((select $1::uuid[])::uuid[]) and (reminder.version > 1 or reminder.created_at <> task.created_at);
