/* webhooks.select_secrets */
select "webhook"."id"::text, "webhook"."secret", coalesce("webhook"."previous_secret", '') as previous_secret
from webhooks webhook where "webhook"."id" > $1::uuid order by "webhook"."id" limit $2::int;
