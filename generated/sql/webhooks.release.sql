/* webhooks.release */
with released as (update "webhooks" set "lease_id" = null, "leased_until" = now() where ("webhooks"."id" = $1::uuid and "webhooks"."lease_id" = $2::uuid) returning "id")
select reschedule_webhooks(array_agg(id)) from released;
