/* trash.delete */
  with recursive target as (
    select * from tasks task where id = $1::uuid and (task.deleted_at is not null and ((task.owner_id = $2::uuid and task.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) for update
  ), checked as (
    select id, deleted_at, case
when not (((target.owner_id = $2::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($2::uuid) end as outcome from target
  ), tree as (
    select id, deleted_at from checked where outcome = 'done'
    union all
    select subtask.id, subtask.deleted_at from tree
      join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at = tree.deleted_at
  ), deleted as (
    delete from tasks where id in (select id from tree) and tasks.deleted_at is not null
  )
  select outcome from checked;
