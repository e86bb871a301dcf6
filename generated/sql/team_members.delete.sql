/* team_members.delete */
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
when not (($1::uuid = $3::uuid or exists (
  select from team_members own
  where own.team_id = team.id and own.user_id = $3::uuid and own.role = 'manager') or (select $4::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (own.version::text is not null and array[own.version::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (own.version::text is not null and array[own.version::text, '*'] && $6::text[]) then 'precondition_failed'
else done_by($3::uuid) end as outcome
    from team join own on true
  ), deleted as (
    delete from team_members member using checked
    where member.team_id = $2::uuid and member.user_id = $1::uuid and checked.outcome = 'done'
  )
  select outcome from checked;
