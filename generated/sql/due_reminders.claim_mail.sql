/* due_reminders.claim_mail */
  with waiting as materialized (
    select "reminder"."user_id", min("reminder"."fired_at") as since from reminders reminder where "reminder"."is_mail_due"
    group by "reminder"."user_id"
  ), chosen as materialized (
    select settings.* from waiting join notification_settings settings on "settings"."user_id" = waiting.user_id
    where "settings"."reminders_mailed_at" between now() - interval '10 minutes' and now() is not true
    order by waiting.since limit 1 for no key update of settings skip locked
  ), stamped as (update "notification_settings" "settings" set "reminders_mailed_at" = now() from chosen where "settings"."user_id" = chosen.user_id),
  marked as (update "reminders" "reminder" set "is_mail_due" = false from chosen where "reminder"."user_id" = chosen.user_id and "reminder"."is_mail_due" returning "reminder"."task_id", "reminder"."fired_at"),
  sent as materialized (
    select "person"."email", "person"."time_zone", "task"."title", marked.fired_at,
      coalesce(to_char("task"."due_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), "task"."due_on"::text) as due
    from chosen join users person on "person"."id" = chosen.user_id
      join marked on true join tasks task on "task"."id" = marked.task_id
    where chosen.mail_reminders and "person"."deleted_at" is null and not "person"."is_disabled"
      and marked.fired_at > now() - interval '24 hours' and "task"."status" in ('todo', 'in_progress') and ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))
  )
  select sent.email, (select count(*)::int from sent) as count, sent.title as task_title, sent.due, sent.time_zone
  from chosen left join sent on true order by sent.fired_at desc limit 50;
