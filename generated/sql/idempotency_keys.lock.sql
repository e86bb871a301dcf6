/* idempotency_keys.lock */
select pg_advisory_xact_lock(hashtextextended($1::uuid::text || ' ' || $2::text || ' ' || $3::text, 0))::text as locked;
