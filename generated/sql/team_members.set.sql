/* team_members.set */
    with
person as materialized (
  select person.id from users person
  where person.id = $1::uuid and (person.deleted_at is null and (true)) for key share
), team as materialized (
  select * from teams team
  where team.id = $2::uuid and (exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $3::uuid and true) or exists (
    select from project_teams shared join memberships membership on membership.project_id = shared.project_id
    where shared.team_id = team.id and membership.user_id = $3::uuid) or (select $4::bool)) and exists (select from person)
  for no key update
), own as materialized (
  select * from team_members own
  where own.team_id = (select id from team) and own.user_id = $1::uuid for update
), checked as (
      select case
when not ((exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $3::uuid and own.role = 'manager') or (select $4::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (own.version::text is not null and array[own.version::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (own.version::text is not null and array[own.version::text, '*'] && $6::text[]) then 'precondition_failed'
else done_by($3::uuid) end as outcome
      from team left join own on true
    ), changed as (
      insert into team_members as stored (team_id, user_id, role) select $2::uuid, $1::uuid, $7::text from checked where outcome = 'done'
      on conflict (team_id, user_id) do update set role = excluded.role
      where ($5::text[] is null or (stored.version::text is not null and array[stored.version::text, '*'] && $5::text[]))
and ($6::text[] is null or not (stored.version::text is not null and array[stored.version::text, '*'] && $6::text[])) returning *
    )
    select case when outcome = 'done' and not changed.version is not null then 'precondition_failed' else outcome end as outcome, (select row_to_json(fields)::text from (select changed.user_id as user_id, changed.role as role, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, changed.version,
      not exists (select from own) as is_new
    from checked left join changed on true;
