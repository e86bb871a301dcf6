/* task_relations.lock_chains */ select pg_advisory_xact_lock(hashtext('task_relations'))::text as locked;
