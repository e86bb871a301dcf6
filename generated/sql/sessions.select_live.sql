/* sessions.select_live */
select "person"."id"::text as user_id, "person"."role", "person"."time_zone", "person"."task_quota"
from sessions session join users person on "person"."id" = "session"."user_id"
where "session"."expires_at" > now() and "person"."deleted_at" is null and not "person"."is_disabled"
  and "session"."id" = $1::uuid and "session"."user_id" = $2::uuid;
