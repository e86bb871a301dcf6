/* feeds.delete_revoked */ with changed as (delete from "feeds" where ctid = any(array(
select ctid from "feeds" where "feeds"."revoked_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - interval '90 days' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
