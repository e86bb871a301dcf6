/* project_members.select */
  select (select row_to_json(fields)::text from (select "member"."user_id" as user_id, "member"."role" as role, "member".direct_role as direct_role, "member".version as version, "member".version as revision, to_char("member"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, "member".version
  from (
select "membership"."user_id" as id, "membership"."user_id", "membership"."project_id", "membership"."role", "membership"."created_at",
  "own"."role" as direct_role, coalesce("own"."version", 0) as version, "person"."username", "person"."display_name"
from memberships membership join users person on "person"."id" = "membership"."user_id"
  left join project_members own on "own"."project_id" = "membership"."project_id" and "own"."user_id" = "membership"."user_id"
where "membership"."project_id" = $1::uuid) member where "member".id = $2::uuid and exists (
select from projects project
where "project"."id" = $1::uuid and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or (select $4::bool))));
