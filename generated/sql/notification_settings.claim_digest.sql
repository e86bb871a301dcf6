/* notification_settings.claim_digest */
    with due as materialized (
      select settings.*, "person"."email", "person"."role" = 'admin' as is_admin
      from notification_settings settings join users person on "person"."id" = "settings"."user_id"
      where "settings"."user_id" = $1::uuid and "settings"."mail_digest" = $2::text
        and "person"."time_zone" = $3::text and "settings"."digest_due_at" <= now() and "person"."deleted_at" is null and not "person"."is_disabled"
and not coalesce("person"."sign_in_due_at" <= now(), false)
      for no key update of settings
    ), moved as (update "notification_settings" "settings" set "digest_due_at" = $4::timestamptz, "digested_until" = greatest((select "notification"."created_at" from notifications notification where "notification"."user_id" = "due"."user_id" order by "notification"."created_at" desc, "notification"."id" desc limit 1), "due"."digested_until") from due where "settings"."user_id" = "due"."user_id"), unread as materialized (
      select notification.* from due cross join lateral (
        select * from notifications notification
        where "notification"."user_id" = "due"."user_id" and "notification"."read_at" is null and "notification"."created_at" > "due"."digested_until"
          and "notification"."reason" not in ('reminder', 'reminder_limit', 'export', 'import')
        order by "notification"."created_at" desc, "notification"."id" desc limit 1000
      ) notification where (("notification"."user_id" = "due"."user_id" and ("notification"."task_id" is null or exists (select from tasks where "tasks"."id" = "notification"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "due"."user_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "due"."user_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "due"."user_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ("due".is_admin and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))))))
    )
    select "due".email, (select count(*)::int from unread) as count, "line"."reason",
      (select "tasks"."title" from tasks where "tasks"."id" = "line"."task_id") as task_title,
      (select "users"."display_name" from users where "users"."id" = "line"."actor_id" and "users"."deleted_at" is null) as actor_name
    from due left join (
      select * from unread notification order by "notification"."created_at" desc, "notification"."id" desc limit 50
    ) line on true
    order by "line"."created_at" desc, "line"."id" desc;
