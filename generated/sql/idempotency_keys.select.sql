/* idempotency_keys.select */
  with expired as (
    delete from idempotency_keys where principal_id = $1::uuid and operation = $2::text and key = $3::text and idempotency_keys.created_at <= now() - interval '24 hours'
  )
select fingerprint, resource_id::text, body from idempotency_keys
where principal_id = $1::uuid and operation = $2::text and key = $3::text and idempotency_keys.created_at > now() - interval '24 hours';
