/* invitation_mails.correct_created_at */ with changed as (update "invitation_mails" set "created_at" = now() + interval '0' where ctid = any(array(
select ctid from "invitation_mails" where "invitation_mails"."created_at" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
