/* task_locks.lock_tags */ select id::text from tags where id = any((select $1::uuid[])::uuid[]) order by id for key share;
