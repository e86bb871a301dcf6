/* attempts.correct_last_failed_at */ with changed as (update "attempts" set last_failed_at = now(), delayed_until = delayed_until - (last_failed_at - now()) where ctid = any(array(
select ctid from "attempts" where "attempts"."last_failed_at" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
