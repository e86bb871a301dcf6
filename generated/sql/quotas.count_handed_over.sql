/* quotas.count_handed_over */
    with recursive tree as (
      select task.id, task.owner_id as present_owner, coalesce((change ->> 'owner_id')::uuid, task.owner_id) as new_owner,
        case when change ? 'project_id' then change ->> 'project_id' is null else task.project_id is null end and (task.project_id is not null or coalesce((change ->> 'owner_id')::uuid, task.owner_id) <> task.owner_id) as takes_subtasks
      from jsonb_array_elements($1::jsonb -> 'rows') change join tasks task on task.id = (change ->> 'task_id')::uuid
      where (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end)))
      union all
      select subtask.id, subtask.owner_id, tree.new_owner, true
      from tree join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at is null
      where takes_subtasks
    )
    select new_owner::text as owner_id, count(*) as tasks from (select * from tree limit 1001) handed
    where new_owner <> present_owner and new_owner <> $2::uuid group by new_owner;
