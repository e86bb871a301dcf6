/* audit_events.delete_old */ with changed as (delete from "audit_events" where ctid = any(array(
select ctid from "audit_events" where "audit_events"."created_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - make_interval(days => $1::int) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
