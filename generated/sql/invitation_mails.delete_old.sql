/* invitation_mails.delete_old */ with changed as (delete from "invitation_mails" where ctid = any(array(
select ctid from "invitation_mails" where "invitation_mails"."created_at" <=
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - interval '1 day' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
