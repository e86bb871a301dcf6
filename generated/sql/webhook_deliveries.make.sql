/* webhook_deliveries.make */
    with
  reader as materialized (
    select * from event_readers reader where "reader"."name" = 'webhooks' and ("reader"."changed_in", "reader"."ordinal") = (
  select "known"."changed_in", "known"."ordinal" from event_readers known where "known"."name" = 'webhooks') and coalesce((
select true from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit 1), false) for update skip locked
  ), batch as materialized (
    select event.* from reader cross join lateral (
      select * from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot())
      order by "event"."changed_in", "event"."ordinal" limit 100
    ) event
  ), moved as (update "event_readers" "reader" set "changed_in" = "last"."changed_in", "ordinal" = "last"."ordinal" from (select * from batch last order by "last"."changed_in" desc, "last"."ordinal" desc limit 1) last where "reader"."name" = 'webhooks'),
  sent as materialized (
    select * from batch event where "event"."type" <> 'task.imported'
  ), candidates as materialized (
    select event.*, candidate.user_id as candidate_id from sent event cross join lateral (
  select user_id from project_grants where project_id in ("event"."project_id", (select "tasks"."project_id" from tasks where "tasks"."id" = "event"."task_id"))
  union select "tasks"."owner_id" from tasks where "tasks"."id" = "event"."task_id" union select "tasks"."assignee_id" from tasks where "tasks"."id" = "event"."task_id"
  union values ("event"."owner_id"), ("event"."assignee_id"), ("event"."recipient_id")) candidate
  ), matched as materialized (
  select "webhook"."id" as webhook_id, "event"."id" as event_id, "event"."type" as event_type, "event"."changed_in",
    "event"."ordinal"
  from candidates event cross join lateral (select * from webhooks webhook where "webhook"."owner_id" = "event".candidate_id and "webhook"."project_id" is null offset 0) webhook
    join users owner on "owner"."id" = "webhook"."owner_id"
  where "webhook"."is_enabled" and "webhook"."deleted_at" is null and ("webhook"."created_at" <= "event"."created_at" or "webhook"."created_at" > clock_timestamp())
    and (array["event"."type", split_part("event"."type", '.', 1) || '.*', '*'] && "webhook"."event_types") and ("owner"."deleted_at" is null and not "owner"."is_disabled" and (("event"."recipient_id" is null or ("event"."recipient_id" = "webhook"."owner_id" and not ("webhook"."project_id" is not null and "owner"."role" = 'admin'))) and (("event"."task_id" is not null and (exists (select from tasks where "tasks"."id" = "event"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and case when "event"."type" in ('task.related', 'task.unrelated')
  then exists (select from tasks where "tasks"."id" = "event"."resource_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) else true end)) or ("event"."task_id" is null and exists (
select from projects project
where "project"."id" = "event"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "project"."id"
  and true offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin'))))) or case "event"."type"
    when 'task.deleted' then not exists (select from tasks where "tasks"."id" = "event"."task_id" and "tasks"."deleted_at" is null) and (("event"."owner_id" = "webhook"."owner_id" and "event"."project_id" is null) or ("event"."assignee_id" = "webhook"."owner_id"
  and ("event"."project_id" is null or exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0))) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "event"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "event"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["event"."owner_id"])
else exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0) end))
    when 'project.deleted' then exists (
  select from projects join project_grants granted on granted.project_id = "projects"."id"
  where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is not null and "projects"."purged_at" is null
    and (("webhook"."project_id" is not null and "owner"."role" = 'admin') or granted.user_id = "webhook"."owner_id")) else false end or ("event"."task_id" is null and "event"."project_id" is null and "event"."recipient_id" = "webhook"."owner_id")))
  and ("webhook"."project_id" is null or ("webhook"."project_id" = "event"."project_id" and "event"."recipient_id" is null and exists (
    select from projects where "projects"."id" = "webhook"."project_id"
      and ("projects"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "projects"."id"
  and "membership"."role" in ('manager') offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin')))))))
    union all
  select "webhook"."id" as webhook_id, "event"."id" as event_id, "event"."type" as event_type, "event"."changed_in",
    "event"."ordinal"
  from sent event cross join lateral (select * from webhooks webhook where "webhook"."project_id" = "event"."project_id" offset 0) webhook
    join users owner on "owner"."id" = "webhook"."owner_id"
  where "webhook"."is_enabled" and "webhook"."deleted_at" is null and ("webhook"."created_at" <= "event"."created_at" or "webhook"."created_at" > clock_timestamp())
    and (array["event"."type", split_part("event"."type", '.', 1) || '.*', '*'] && "webhook"."event_types") and ("owner"."deleted_at" is null and not "owner"."is_disabled" and (("event"."recipient_id" is null or ("event"."recipient_id" = "webhook"."owner_id" and not ("webhook"."project_id" is not null and "owner"."role" = 'admin'))) and (("event"."task_id" is not null and (exists (select from tasks where "tasks"."id" = "event"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and case when "event"."type" in ('task.related', 'task.unrelated')
  then exists (select from tasks where "tasks"."id" = "event"."resource_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) else true end)) or ("event"."task_id" is null and exists (
select from projects project
where "project"."id" = "event"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "project"."id"
  and true offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin'))))) or case "event"."type"
    when 'task.deleted' then not exists (select from tasks where "tasks"."id" = "event"."task_id" and "tasks"."deleted_at" is null) and (("event"."owner_id" = "webhook"."owner_id" and "event"."project_id" is null) or ("event"."assignee_id" = "webhook"."owner_id"
  and ("event"."project_id" is null or exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0))) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "event"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "event"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["event"."owner_id"])
else exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0) end))
    when 'project.deleted' then exists (
  select from projects join project_grants granted on granted.project_id = "projects"."id"
  where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is not null and "projects"."purged_at" is null
    and (("webhook"."project_id" is not null and "owner"."role" = 'admin') or granted.user_id = "webhook"."owner_id")) else false end or ("event"."task_id" is null and "event"."project_id" is null and "event"."recipient_id" = "webhook"."owner_id")))
  and ("webhook"."project_id" is null or ("webhook"."project_id" = "event"."project_id" and "event"."recipient_id" is null and exists (
    select from projects where "projects"."id" = "webhook"."project_id"
      and ("projects"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "projects"."id"
  and "membership"."role" in ('manager') offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin')))))))
  ), counted as (update "webhooks" "webhook" set "last_sequence" = "webhook"."last_sequence" + added.deliveries, "due_at" = least("webhook"."due_at", now()) from (select webhook_id, count(*) as deliveries from matched group by webhook_id) added where "webhook"."id" = added.webhook_id returning "webhook"."id", "webhook"."last_sequence" - added.deliveries as "before"), added as (
    insert into webhook_deliveries (
      id, webhook_id, sequence, event_id, event_type, event_changed_in, event_ordinal, due_at, created_at)
    select event_id(clock_timestamp(), sequence), counted.id, sequence, matched.event_id, matched.event_type, matched.changed_in,
      matched.ordinal, clock_timestamp(), clock_timestamp()
    from (
      select matched.*, row_number() over (partition by webhook_id order by changed_in, ordinal) as place from matched
    ) matched join counted on counted.id = matched.webhook_id
      cross join lateral (select before + place as sequence) numbered
    order by counted.id, sequence
  )
    select count(*) as events from batch;
