/* team_members.check_team */ select exists (
select from teams team where "team"."id" = $1::uuid and (exists (
  select from team_members own
  where "own"."team_id" = "team"."id" and "own"."user_id" = $2::uuid and true) or exists (
    select from project_teams shared join memberships membership on "membership"."project_id" = "shared"."project_id"
    where "shared"."team_id" = "team"."id" and "membership"."user_id" = $2::uuid) or (select $3::bool))) as is_visible;
