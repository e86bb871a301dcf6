/* teams.update */
  with target as (
    select * from teams team where id = $1::uuid and (exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $2::uuid and true) or exists (
    select from project_teams shared join memberships membership on membership.project_id = shared.project_id
    where shared.team_id = team.id and membership.user_id = $2::uuid) or (select $3::bool)) for no key update
  ), checked as (
    select id, case
when not ((exists (
  select from team_members own
  where own.team_id = target.id and own.user_id = $2::uuid and own.role = 'manager') or (select $3::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
else done_by($2::uuid) end as outcome from target
  ), changed as (
    update teams team set name = coalesce($6::text, team.name)
    from checked where team.id = checked.id and checked.outcome = 'done' returning team.*
  )
  select outcome, (select row_to_json(fields)::text from (select changed.id as id, changed.name as name, (select own.role from team_members own where own.team_id = changed.id and own.user_id = $2::uuid) as role, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, changed.version, (select own.role from team_members own where own.team_id = changed.id and own.user_id = $2::uuid) as role
  from checked left join changed on true;
