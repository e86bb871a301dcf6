/* attempts.move_back */ with changed as (update "attempts" set "last_failed_at" = now(), "delayed_until" = "attempts"."delayed_until" - ("attempts"."last_failed_at" - now()) where ctid = any(array(
select ctid from "attempts" where "attempts"."last_failed_at" > now() limit 500 for update skip locked)) returning "key") select count(*) as changed from changed;
