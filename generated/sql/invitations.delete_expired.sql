/* invitations.delete_expired */ with changed as (delete from "invitations" where ctid = any(array(
select ctid from "invitations" where expires_at <=
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
