/* running_jobs.lock */ select pg_try_advisory_xact_lock(hashtextextended('exports and imports', 0)) as is_ours;
