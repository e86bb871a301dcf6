/* notifications.mark_read */
  with unread as materialized (
    select "notification"."id" from notifications notification
    where "notification"."user_id" = $1::uuid and "notification"."read_at" is null and "notification"."created_at" <= $2::timestamptz
      and (("notification"."user_id" = $1::uuid and ("notification"."task_id" is null or exists (select from tasks where "tasks"."id" = "notification"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $1::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $1::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $1::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))))))
    order by "notification"."created_at", "notification"."id" limit 5000 + 1 for no key update
  ), marked as (update "notifications" "notification" set "read_at" = now() where "notification"."id" in (select id from unread limit 5000) returning "id")
  select (select count(*)::int from marked) as marked, (select count(*) from unread) > 5000 as has_more;
