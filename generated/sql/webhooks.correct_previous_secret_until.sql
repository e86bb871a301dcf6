/* webhooks.correct_previous_secret_until */ with changed as (update "webhooks" set "previous_secret_until" = now() + interval '24 hours' where ctid = any(array(
select ctid from "webhooks" where "webhooks"."previous_secret_until" > now() + interval '24 hours' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
