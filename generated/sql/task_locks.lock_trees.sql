/* task_locks.lock_trees */ select unnest(lock_trees($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid))::text as id;
