/* task_locks.select_users_of_tasks */ select user_id::text as id from (
select user_id from task_followers where task_id in (select unnest($1::uuid[]))
union select user_id from reminders where task_id in (select unnest($1::uuid[]))) person;
