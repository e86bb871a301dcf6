/* sessions.use */
  with used as (update "sessions" set "last_used_at" = now() where ("sessions"."id" = $1::uuid and "sessions"."user_id" = $2::uuid and "sessions"."expires_at" > now() and not ("sessions"."last_used_at" between now() - interval '1 minute' and now() + interval '1 minute')))
select "person"."id"::text as user_id, "person"."role", "person"."time_zone", "person"."task_quota"
from sessions session join users person on "person"."id" = "session"."user_id"
where "session"."expires_at" > now() and "person"."deleted_at" is null and not "person"."is_disabled"
  and "session"."id" = $1::uuid and "session"."user_id" = $2::uuid;
