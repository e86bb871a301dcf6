/* idempotency_keys.look_up */
select fingerprint, resource_id::text, body from idempotency_keys
where principal_id = $1::uuid and operation = $2::text and key = $3::text and "idempotency_keys"."created_at" > now() - interval '24 hours';
