/* task_locks.select_related */
select task_id::text as id from task_relations where task_id = any((select $1::uuid[])::uuid[])
union select other_task_id::text from task_relations where other_task_id = any((select $1::uuid[])::uuid[]);
