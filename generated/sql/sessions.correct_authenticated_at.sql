/* sessions.correct_authenticated_at */ with changed as (update "sessions" set authenticated_at = to_timestamp(0) where ctid = any(array(
select ctid from "sessions" where "sessions"."authenticated_at" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
