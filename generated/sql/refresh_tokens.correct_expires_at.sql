/* refresh_tokens.correct_expires_at */ with changed as (update "refresh_tokens" set "expires_at" = now() + interval '7 days' where ctid = any(array(
select ctid from "refresh_tokens" where "refresh_tokens"."expires_at" > now() + interval '7 days' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
