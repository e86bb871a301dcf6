/* project_teams.delete */
  with team as materialized (
    select id from teams
    where id = $1::uuid
      and exists (select from project_teams where project_id = $2::uuid and team_id = $1::uuid)
    for no key update
  ),
project as materialized (
  select * from projects project
  where project.id = $2::uuid and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and true offset 0) or (select $4::bool))) and exists (select from team)
  for update
), current as materialized (
  select * from project_teams current
  where current.project_id = (select id from project) and current.team_id = $1::uuid for update
), checked as (
    select case
when not ((project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $4::bool)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (current.version::text is not null and array[current.version::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (current.version::text is not null and array[current.version::text, '*'] && $6::text[]) then 'precondition_failed'
else done_by($3::uuid) end as outcome
    from project join current on true
  ), deleted as (
    delete from project_teams shared using checked
    where shared.project_id = $2::uuid and shared.team_id = $1::uuid and checked.outcome = 'done'
  )
  select outcome from checked;
