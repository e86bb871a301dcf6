/* refresh_tokens.delete_spent */ with changed as (delete from "refresh_tokens" where ctid = any(array(
select ctid from "refresh_tokens" where expires_at <=
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) and spent_at is not null limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
