/* attempts.delete_old */ with changed as (delete from "attempts" where ctid = any(array(
select ctid from "attempts" where last_failed_at <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - interval '1 day' and delayed_until <= now() limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
