/* notifications.insert */
    with
  reader as materialized (
    select * from event_readers reader where "reader"."name" = 'notifications' and ("reader"."changed_in", "reader"."ordinal") = (
  select "known"."changed_in", "known"."ordinal" from event_readers known where "known"."name" = 'notifications') and coalesce((
select true from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit 1), false) for update skip locked
  ), batch as materialized (
    select event.* from reader cross join lateral (
      select * from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot())
      order by "event"."changed_in", "event"."ordinal" limit 100
    ) event
  ), moved as (update "event_readers" "reader" set "changed_in" = "last"."changed_in", "ordinal" = "last"."ordinal" from (select * from batch last order by "last"."changed_in" desc, "last"."ordinal" desc limit 1) last where "reader"."name" = 'notifications'),
referred as materialized (
  select "event"."task_id", case when "event"."type" in ('comment.created', 'comment.updated') then "event"."resource_id" end as comment_id
  from batch event
  union select task_id, comment_id from (
  select held.*, "event"."ordinal" from batch event join held_notifications held join tasks task on "task"."id" = "held"."task_id" and ("task"."deleted_at" is null and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) on "held"."task_id" = "event"."task_id"
  where "event"."type" in ('task.restored')
  union
  select held.*, "event"."ordinal" from batch event join held_notifications held join tasks task on "task"."id" = "held"."task_id" and ("task"."deleted_at" is null and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) on "task"."project_id" = "event"."project_id"
  where "event"."type" in ('project.restored')) restored
), locked_tasks as materialized (
  select id from tasks where id in (select task_id from referred) order by id for key share
), locked_comments as materialized (
  select id from comments where id in (select comment_id from referred) and (select count(*) from locked_tasks) > 0
  order by id for key share
), recipients as materialized (
    select recipient.* from (
      select distinct on (event_id, user_id) * from (
        (
select distinct on (comment_id, user_id) * from (
select person as user_id, 'mention' as reason, 0 as rank,
  "event"."id" as event_id, "event"."actor_id", "event"."task_id", "comment"."id" as comment_id, "event"."changed_in", "event"."ordinal"
from batch event join comments comment on "comment"."id" = "event"."resource_id" and "comment"."id" in (select id from locked_comments) cross join lateral unnest("comment"."mentions") person
  where "event"."type" in ('comment.created', 'comment.updated')
    and not exists (
select from "notifications"
where "notifications"."comment_id" = "comment"."id" and "notifications"."user_id" = person and "notifications"."reason" = 'mention') and not exists (
select from "held_notifications"
where "held_notifications"."comment_id" = "comment"."id" and "held_notifications"."user_id" = person and "held_notifications"."reason" = 'mention')
) mentioned order by comment_id, user_id, changed_in, ordinal) union all
select ("event"."after" ->> 'assignee_id')::uuid as user_id, 'assignment' as reason, 1 as rank,
  "event"."id" as event_id, "event"."actor_id", "event"."task_id", null::uuid as comment_id, "event"."changed_in", "event"."ordinal"
from batch event  where ("event"."type" in ('task.created', 'task.updated') and "event"."after" ->> 'assignee_id' is not null
and "event"."after" ->> 'recurred_from' is null) union all
select "follower"."user_id" as user_id, 'comment' as reason, 2 as rank,
  "event"."id" as event_id, "event"."actor_id", "event"."task_id", "comment"."id" as comment_id, "event"."changed_in", "event"."ordinal"
from batch event join comments comment on "comment"."id" = "event"."resource_id" and "comment"."id" in (select id from locked_comments) join task_followers follower on "follower"."task_id" = "event"."task_id" and not "follower"."has_stopped" where "event"."type" in ('comment.created') union all
select "follower"."user_id" as user_id, 'completion' as reason, 3 as rank,
  "event"."id" as event_id, "event"."actor_id", "event"."task_id", null::uuid as comment_id, "event"."changed_in", "event"."ordinal"
from batch event join task_followers follower on "follower"."task_id" = "event"."task_id" and not "follower"."has_stopped" where ("event"."type" in ('task.updated') and "event"."after" ->> 'status' = 'done')
      ) reasons order by event_id, user_id, rank
    ) recipient join locked_tasks on locked_tasks.id = recipient.task_id
    where recipient.user_id is distinct from recipient.actor_id
  ), held as (
    insert into held_notifications (user_id, reason, event_id, actor_id, task_id, comment_id)
    select recipient.user_id, recipient.reason, recipient.event_id, recipient.actor_id, recipient.task_id, recipient.comment_id
    from recipients recipient join tasks task on "task"."id" = "recipient"."task_id"
      join users person on "person"."id" = "recipient"."user_id"
    where not ("task"."deleted_at" is null and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)
    on conflict do nothing
  ), restored as materialized (
    select restored.* from (
  select held.*, "event"."ordinal" from batch event join held_notifications held join tasks task on "task"."id" = "held"."task_id" and ("task"."deleted_at" is null and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) on "held"."task_id" = "event"."task_id"
  where "event"."type" in ('task.restored')
  union
  select held.*, "event"."ordinal" from batch event join held_notifications held join tasks task on "task"."id" = "held"."task_id" and ("task"."deleted_at" is null and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) on "task"."project_id" = "event"."project_id"
  where "event"."type" in ('project.restored')) restored join locked_tasks on locked_tasks.id = restored.task_id
    where comment_id is null or comment_id in (select id from locked_comments)
  ), released as (
    delete from held_notifications held using restored
    where (held.user_id, held.event_id) = (restored.user_id, restored.event_id)
  ), made as (
    insert into notifications (id, user_id, reason, event_id, actor_id, task_id, comment_id, created_at)
    select event_id(clock_timestamp(), ordinal), user_id, reason, event_id, actor_id, task_id, comment_id, clock_timestamp() from (
      select recipient.* from (
        select user_id, reason, event_id, actor_id, task_id, comment_id, changed_in, ordinal from recipients
        union all
        select distinct on (user_id, event_id) user_id, reason, event_id, actor_id, task_id, comment_id, null, ordinal from restored
      ) recipient
        join users person on "person"."id" = "recipient"."user_id" and "person"."deleted_at" is null
        join tasks task on "task"."id" = "recipient"."task_id"
      where ("task"."deleted_at" is null and (("task"."owner_id" = "person"."id" and "task"."project_id" is null) or (coalesce("task"."assignee_id" = "person"."id", false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "person"."id" and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ("person"."role" = 'admin' and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)))
      order by recipient.changed_in nulls first, recipient.ordinal, recipient.event_id, recipient.user_id
    ) recipient
    on conflict (user_id, event_id) do nothing
  )
    select count(*) as events from batch;
