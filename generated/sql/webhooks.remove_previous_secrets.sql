/* webhooks.remove_previous_secrets */ with changed as (update "webhooks" set "previous_secret" = null, "previous_secret_until" = null where "webhooks"."id" in (
        select id from webhooks where "webhooks"."previous_secret_until" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now())
        limit 500 for update skip locked) returning "id") select count(*) as changed from changed;
