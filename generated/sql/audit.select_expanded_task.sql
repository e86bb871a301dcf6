/* audit.select_expanded_task */
      select "task"."owner_id"::text from (
  select $1::uuid
  union all select "tasks"."parent_id" from tasks where "tasks"."id" = $1::uuid and 'parent' = any($2::text[])
  union all select "tasks"."id" from tasks where "tasks"."parent_id" = $1::uuid and 'subtasks' = any($2::text[])
  union all select "task_relations"."other_task_id" from task_relations where "task_relations"."task_id" = $1::uuid and 'task' = any($2::text[])
  union all select "task_relations"."task_id" from task_relations where "task_relations"."other_task_id" = $1::uuid and 'task' = any($2::text[])) shown (id) join tasks task on "task"."id" = shown.id
      where ("task"."id" = $1::uuid and ((("task"."deleted_at" is null and (("task"."owner_id" = $3::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $3::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or (false and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) or ("task"."deleted_at" is not null and (("task"."owner_id" = $3::uuid and "task"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "task"."project_id"
  and "membership"."role" in ('editor', 'manager') offset 0) or (false and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))) is not true or ('project' = any($2::text[]) and exists (
      select from projects project
      where "project"."id" = "task"."project_id" and (("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or false)) or (("project"."deleted_at" is not null and "project"."purged_at" is null and "project"."filling_import_id" is null) and (exists (
    select from project_grants granted
    where granted.project_id = "project"."id" and granted.user_id = $3::uuid and granted.role in ('manager')) or false))) is not true))))
        or (not "task"."id" = $1::uuid and ("task"."deleted_at" is null and (("task"."owner_id" = $3::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $3::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ((select $4::bool) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) and (("task"."deleted_at" is null and (("task"."owner_id" = $3::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $3::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or (false and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) or ("task"."deleted_at" is not null and (("task"."owner_id" = $3::uuid and "task"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "task"."project_id"
  and "membership"."role" in ('editor', 'manager') offset 0) or (false and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))) is not true)
      order by "task"."id" = $1::uuid desc limit 1;
