/* teams.delete */
  with target as materialized (
    select * from teams team where id = $1::uuid and (exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $2::uuid and true) or exists (
    select from project_teams shared join memberships membership on membership.project_id = shared.project_id
    where shared.team_id = team.id and membership.user_id = $2::uuid) or (select $3::bool)) for update
  ), checked as materialized (
    select id, case
when not ((exists (
  select from team_members own
  where own.team_id = target.id and own.user_id = $2::uuid and own.role = 'manager') or (select $3::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
else done_by($2::uuid) end as outcome from target
  ), removed as materialized (
    select id from checked where outcome = 'done'
  ), locked as materialized (
    select from projects where id in (select project_id from project_teams join removed on removed.id = team_id)
    order by id for update
  ), left_projects as (
    delete from project_teams using removed where team_id = removed.id and (select count(*) from locked) is not null
  ), left_members as (
    delete from team_members using removed where team_id = removed.id and (select count(*) from locked) is not null
  ), deleted as (
    delete from teams using removed where teams.id = removed.id and (select count(*) from locked) is not null
  )
  select outcome from checked;
