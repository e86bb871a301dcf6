/* webhooks.correct_failing_since */ with changed as (update "webhooks" set "failing_since" = now() + interval '0' where ctid = any(array(
select ctid from "webhooks" where "webhooks"."failing_since" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
