/* project_members.delete */
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
when not (($1::uuid = $3::uuid or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $4::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (coalesce(own.version, (select 0 from access))::text is not null and array[coalesce(own.version, (select 0 from access))::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (coalesce(own.version, (select 0 from access))::text is not null and array[coalesce(own.version, (select 0 from access))::text, '*'] && $6::text[]) then 'precondition_failed'
when own.version is null then 'access_through_team'
else done_by($3::uuid) end as outcome
    from project left join own on true where coalesce(own.version, (select 0 from access)) is not null
  ), deleted as (
    delete from project_members member using checked
    where member.project_id = $2::uuid and member.user_id = $1::uuid and checked.outcome = 'done'
  )
  select outcome from checked;
