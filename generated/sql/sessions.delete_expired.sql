/* sessions.delete_expired */ with changed as (delete from "sessions" where ctid = any(array(
select ctid from "sessions" where expires_at <=
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
