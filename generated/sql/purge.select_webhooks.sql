/* purge.select_webhooks */ select id::text from webhooks where "webhooks"."deleted_at" is not null;
