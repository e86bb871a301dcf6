/* comments.select_mentioned */
  select "person"."id"::text from tasks task, users person
  where "task"."id" = $1::uuid and "person"."username" = any($2::text[]) and "person"."deleted_at" is null
    and ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))
  order by "person"."id" limit 100;
