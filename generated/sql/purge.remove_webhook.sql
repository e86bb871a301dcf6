/* purge.remove_webhook */
delete from webhooks where id = $1::uuid and "webhooks"."deleted_at" is not null
  and not exists (select from webhook_deliveries where webhook_id = $1::uuid);
