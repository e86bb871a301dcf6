/* webhooks.release */
with released as (
  update webhooks webhook set lease_id = null, leased_until = now()
  where webhook.id = $1::uuid and webhook.lease_id = $2::uuid returning webhook.id
)
select reschedule_webhooks(array_agg(id)) from released;
