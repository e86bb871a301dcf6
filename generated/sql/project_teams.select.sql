/* project_teams.select */
  select (select row_to_json(fields)::text from (select "shared"."team_id" as team_id, "shared".name as name, "shared"."role" as role, "shared"."version" as version, "shared"."version" as revision, to_char("shared"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, "shared"."version"
  from (
select "shared"."team_id" as id, shared.*, "team"."name"
from project_teams shared join teams team on "team"."id" = "shared"."team_id" where "shared"."project_id" = $1::uuid) shared where "shared".id = $2::uuid and exists (
select from projects project
where "project"."id" = $1::uuid and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or (select $4::bool))));
