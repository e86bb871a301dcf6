/* idempotency_keys.store */
insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) values ($1::uuid, $2::text, $3::text, $4::text, $5::uuid, $6::text)
on conflict (principal_id, operation, key) do update set fingerprint = excluded.fingerprint, resource_id = excluded.resource_id, body = excluded.body, created_at = excluded.created_at;
