/* teams.select */
select (select row_to_json(fields)::text from (select "team"."id" as id, "team"."name" as name, (select "own"."role" from team_members own where "own"."team_id" = "team"."id" and "own"."user_id" = $1::uuid) as role, "team"."version" as version, "team"."version" as revision, to_char("team"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("team"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, "team"."version", (select "own"."role" from team_members own where "own"."team_id" = "team"."id" and "own"."user_id" = $1::uuid) as role
from teams team where "team"."id" = $2::uuid and (exists (
select from team_members own
where "own"."team_id" = "team"."id" and "own"."user_id" = $1::uuid and true) or exists (
  select from project_teams shared join memberships membership on "membership"."project_id" = "shared"."project_id"
  where "shared"."team_id" = "team"."id" and "membership"."user_id" = $1::uuid) or (select $3::bool));
