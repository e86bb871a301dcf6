/* refresh_tokens.select_started */
select "session"."id"::text as session_id, "person"."id"::text as user_id,
  (select row_to_json(fields)::text from (select "person"."id" as id, "person"."username" as username, "person"."display_name" as display_name, case when ("person"."id" = "person"."id" or false) then "person"."email" end as email, "person"."role" as role, "person"."time_zone" as time_zone, "person"."is_disabled" as is_disabled, case when ("person"."id" = "person"."id" or false) then "person"."attachment_quota_bytes" end as attachment_quota_bytes, case when ("person"."id" = "person"."id" or false) then "person"."task_quota" end as task_quota, to_char("person"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("person"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, "person"."version" as version, "person"."version" as revision) fields) as user_json,
  floor(extract(epoch from "token"."expires_at" - now()::timestamptz(3)))::int as expires_in,
  (extract(epoch from "token"."created_at") * 1000)::bigint as issued_at,
  greatest(floor(extract(epoch from now()::timestamptz(3) - "token"."created_at")), 0)::int as age
from refresh_tokens token
  join sessions session on "session"."id" = "token"."session_id"
  join users person on "person"."id" = "session"."user_id"
where "token"."hash" = $1::bytea;
