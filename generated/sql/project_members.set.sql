/* project_members.set */
    with
person as materialized (
  select person.id from users person
  where person.id = $1::uuid and (person.deleted_at is null and (true)) for key share
), project as materialized (
  select * from projects project
  where project.id = $2::uuid and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and true offset 0) or (select $4::bool))) and exists (select from person)
  for update
), own as materialized (
  select * from project_members own
  where own.project_id = (select id from project) and own.user_id = $1::uuid for update
), access as materialized (
  select created_at from memberships
  where project_id = (select id from project) and user_id = $1::uuid for key share
), checked as (
      select case
when not ((project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $4::bool)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (coalesce(own.version, (select 0 from access))::text is not null and array[coalesce(own.version, (select 0 from access))::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (coalesce(own.version, (select 0 from access))::text is not null and array[coalesce(own.version, (select 0 from access))::text, '*'] && $6::text[]) then 'precondition_failed'
else done_by($3::uuid) end as outcome
      from project left join own on true
    ), changed as (
      insert into project_members as stored (project_id, user_id, role) select $2::uuid, $1::uuid, $7::text from checked where outcome = 'done'
      on conflict (project_id, user_id) do update set role = excluded.role
      where ($5::text[] is null or (stored.version::text is not null and array[stored.version::text, '*'] && $5::text[]))
and ($6::text[] is null or not (stored.version::text is not null and array[stored.version::text, '*'] && $6::text[])) returning *
    ), member as (
      select changed.user_id, changed.role as direct_role, changed.version,
        (select role from (select changed.role union all
    select team.role from project_teams team join team_members member on member.team_id = team.team_id
    where team.project_id = $2::uuid and member.user_id = $1::uuid) roles order by role_rank(role) desc limit 1) as role,
        coalesce((select created_at from access), changed.created_at) as created_at
      from changed
    )
    select case when outcome = 'done' and not member.version is not null then 'precondition_failed' else outcome end as outcome, (select row_to_json(fields)::text from (select member.user_id as user_id, member.role as role, member.direct_role as direct_role, member.version as version, to_char(member.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json, member.version,
      not exists (select from own) and not exists (select from access) as is_new
    from checked left join member on true;
