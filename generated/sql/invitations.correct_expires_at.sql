/* invitations.correct_expires_at */ with changed as (update "invitations" set "expires_at" = now() + interval '7 days' where ctid = any(array(
select ctid from "invitations" where "invitations"."expires_at" > now() + interval '7 days' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
