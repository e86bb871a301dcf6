/* tasks.select_window */
  select (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from tasks item where coalesce(item.project_id, item.owner_id) = coalesce(case when $1::bool then $2::uuid else task.project_id end, task.owner_id) and item.deleted_at is null and item.id <> $3::uuid and ((item.position, item.id) < (anchor.position, anchor.id)
    or item.id = anchor.id and $4::text = 'after') order by item.position desc nulls last, item.id desc nulls last limit $5::int + 1) item) as previous, (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from tasks item where coalesce(item.project_id, item.owner_id) = coalesce(case when $1::bool then $2::uuid else task.project_id end, task.owner_id) and item.deleted_at is null and item.id <> $3::uuid and ((item.position, item.id) > (anchor.position, anchor.id)
    or item.id = anchor.id and $4::text = 'before') order by item.position asc nulls first, item.id asc nulls first limit $5::int + 1) item) as next from tasks task join lateral (select item.id, item.position from tasks item where coalesce(item.project_id, item.owner_id) = coalesce(case when $1::bool then $2::uuid else task.project_id end, task.owner_id) and item.deleted_at is null and item.id <> $3::uuid and item.id = $6::uuid) anchor on true
  where task.id = $3::uuid and (task.deleted_at is null and ((task.owner_id = $7::uuid and task.project_id is null) or (coalesce(task.assignee_id = $7::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $7::uuid and membership.project_id = task.project_id and true offset 0) or ((select $8::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end)));
