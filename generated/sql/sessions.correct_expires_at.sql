/* sessions.correct_expires_at */ with changed as (update "sessions" set "expires_at" = now() + interval '30 days' where ctid = any(array(
select ctid from "sessions" where "sessions"."expires_at" > now() + interval '30 days' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
