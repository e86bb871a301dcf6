/* reminders.lock_count */ select pg_advisory_xact_lock(hashtextextended('reminders ' || $1::uuid::text, 0))::text as locked;
