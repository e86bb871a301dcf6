/* task_relations.select_seen */
  select "task"."id"::text from unnest($1::uuid[]) with ordinality step (task_id, place)
    join tasks task on "task"."id" = step.task_id
  where ("task"."deleted_at" is null and (("task"."owner_id" = $2::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $2::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) order by place;
