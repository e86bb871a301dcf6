/* due_reminders.claim_mail */
  with claimed as materialized (
    select reminder.* from reminders reminder where "reminder"."is_mail_due"
    order by "reminder"."fired_at" limit 1 for no key update skip locked
  ), marked as (update "reminders" "reminder" set "is_mail_due" = false from claimed where "reminder"."id" = claimed.id)
  select case when "person"."deleted_at" is null and not "person"."is_disabled" and ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))) then "person"."email" end as email,
    "task"."title" as task_title, coalesce(to_char("task"."due_at" at time zone "person"."time_zone", 'YYYY-MM-DD HH24:MI') || ' (' || "person"."time_zone" || ')', "task"."due_on"::text) as due
  from claimed join tasks task on "task"."id" = claimed.task_id join users person on "person"."id" = claimed.user_id;
