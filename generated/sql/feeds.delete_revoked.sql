/* feeds.delete_revoked */ with changed as (delete from "feeds" where ctid = any(array(
select ctid from "feeds" where "feeds"."revoked_at" <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - interval '90 days' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
