/* users.lock_administrators */ select pg_advisory_xact_lock(hashtextextended('administrators', 0))::text as locked;
