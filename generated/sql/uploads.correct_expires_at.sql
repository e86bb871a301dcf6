/* uploads.correct_expires_at */ with changed as (update "uploads" set "expires_at" = now() + interval '24 hours' where ctid = any(array(
select ctid from "uploads" where "uploads"."expires_at" > now() + interval '24 hours' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
