/* team_members.select */
  select (select row_to_json(fields)::text from (select "member"."user_id" as user_id, "member"."role" as role, "member"."version" as version, "member"."version" as revision, to_char("member"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, "member"."version"
  from (
select "member"."user_id" as id, member.*, "person"."username", "person"."display_name"
from team_members member join users person on "person"."id" = "member"."user_id" and "person"."deleted_at" is null
where "member"."team_id" = $1::uuid) member where "member".id = $2::uuid and exists (
select from teams team where "team"."id" = $1::uuid and (exists (
  select from team_members own
  where "own"."team_id" = "team"."id" and "own"."user_id" = $3::uuid and true) or exists (
    select from project_teams shared join memberships membership on "membership"."project_id" = "shared"."project_id"
    where "shared"."team_id" = "team"."id" and "membership"."user_id" = $3::uuid) or (select $4::bool)));
