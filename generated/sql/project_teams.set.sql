/* project_teams.set */
    with people as materialized (
      select from users where id in (
        select user_id from team_members join teams team on team.id = team_id
        where team.id = $1::uuid and (exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $2::uuid and true) or exists (
    select from project_teams shared join memberships membership on membership.project_id = shared.project_id
    where shared.team_id = team.id and membership.user_id = $2::uuid) or (select $3::bool)))
      order by id for key share
    ), team as materialized (
      select * from teams team
      where team.id = $1::uuid and (exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $2::uuid and true) or exists (
    select from project_teams shared join memberships membership on membership.project_id = shared.project_id
    where shared.team_id = team.id and membership.user_id = $2::uuid) or (select $3::bool)) and (select count(*) from people) is not null
      for no key update
    ),
project as materialized (
  select * from projects project
  where project.id = $4::uuid and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = project.id and true offset 0) or (select $3::bool))) and exists (select from team)
  for update
), current as materialized (
  select * from project_teams current
  where current.project_id = (select id from project) and current.team_id = $1::uuid for update
), checked as (
      select case
when not ((project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $3::bool)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (current.version::text is not null and array[current.version::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (current.version::text is not null and array[current.version::text, '*'] && $6::text[]) then 'precondition_failed'
else done_by($2::uuid) end as outcome
      from project left join current on true
    ), changed as (
      insert into project_teams as stored (project_id, team_id, role) select $4::uuid, $1::uuid, $7::text from checked where outcome = 'done'
      on conflict (project_id, team_id) do update set role = excluded.role
      where ($5::text[] is null or (stored.version::text is not null and array[stored.version::text, '*'] && $5::text[]))
and ($6::text[] is null or not (stored.version::text is not null and array[stored.version::text, '*'] && $6::text[])) returning *
    )
    select case when outcome = 'done' and not changed.version is not null then 'precondition_failed' else outcome end as outcome, (select row_to_json(fields)::text from (select changed.team_id as team_id, (select name from team) as name, changed.role as role, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, changed.version,
      not exists (select from current) as is_new
    from checked left join changed on true;
