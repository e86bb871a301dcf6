/* tasks.trash */
  with
trees as materialized (
  select lock_trees(array(select $1::uuid), array(select null::uuid where false), array(select $1::uuid)) as are_locked
), visible_parents as (
select * from tasks task where id in (select null::uuid where false) and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), target as (
select * from tasks task where id in ($1::uuid) and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
  ), subtasks as (select have_too_many_subtasks(array(select id from target where subtask_count > 0)) as are_too_many), deletion as (
    select id, case
when not (((target.owner_id = $2::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived' when true and target.subtask_count > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'
else done_by($2::uuid) end as outcome from target
  ), trashed as (
    update tasks task set deleted_at = now() from deletion
    where task.id = deletion.id and outcome = 'done'
  )
  select outcome from deletion;
