/* invitation_mails.delete_old */ with changed as (delete from "invitation_mails" where ctid = any(array(
select ctid from "invitation_mails" where "invitation_mails"."created_at" <=
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - interval '1 day' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
