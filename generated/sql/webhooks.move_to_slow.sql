/* webhooks.move_to_slow */
update webhooks webhook set queue = 'slow'
where webhook.id = $1::uuid and webhook.lease_id = $2::uuid;
