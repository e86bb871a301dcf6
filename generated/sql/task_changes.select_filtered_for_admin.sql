/* task_changes.select_filtered_for_admin */
    with recursive picked as (
      select distinct on (at, changed_in, id) at, changed_in, id, is_seen
      from (
        select at, changed_in, id, is_seen from ((
  select greatest("item"."changed_in", '0'::xid8) as at, "item"."changed_in" as changed_in, "item"."id" as id , "item"."project_id", (
    ($1::bool or "item"."project_id" = any($2::uuid[]) or ($3::bool and "item"."project_id" is null))
    and ($4::bool or coalesce("item"."assignee_id" = any($5::uuid[]), false))) is true as is_seen
  from tasks item where ("item"."deleted_at" is null and case
when "item"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["item"."owner_id"])
else exists (select from projects where "projects"."id" = "item"."project_id" and "projects"."deleted_at" is null offset 0) end and not exists (
  select from projects project where "project"."id" = "item"."project_id" and ("project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) and "project"."deleted_at" is null))) and ((
    ($1::bool or "item"."project_id" = any($2::uuid[]) or ($3::bool and "item"."project_id" is null))
    and ($4::bool or coalesce("item"."assignee_id" = any($5::uuid[]), false))) is true or "item"."changed_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot()))) and ("item"."changed_in", "item"."id") > (case when '0'::xid8 > $7::xid8 then '0'::xid8 when '0'::xid8 = $7::xid8 then least($8::xid8, $7::xid8) else $7::xid8 end, case when '0'::xid8 > $7::xid8 then '00000000-0000-0000-0000-000000000000'::uuid when $8::xid8 > $7::xid8 then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
    when $7::xid8 in ('0'::xid8, $8::xid8) then $9::uuid else '00000000-0000-0000-0000-000000000000'::uuid end) and "item"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) and '0'::xid8 < pg_snapshot_xmin(pg_current_snapshot())
  order by  "item"."changed_in", "item"."id" limit $10::int + 1) union all (
      select reached.* from projects project
        cross join lateral (
  select greatest("item"."changed_in", case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end) as at, "item"."changed_in" as changed_in, "item"."id" as id , "item"."project_id", (
    ($1::bool or "item"."project_id" = any($2::uuid[]) or ($3::bool and "item"."project_id" is null))
    and ($4::bool or coalesce("item"."assignee_id" = any($5::uuid[]), false))) is true as is_seen
  from tasks item where ("item"."deleted_at" is null and "item"."project_id" = "project"."id") and ((
    ($1::bool or "item"."project_id" = any($2::uuid[]) or ($3::bool and "item"."project_id" is null))
    and ($4::bool or coalesce("item"."assignee_id" = any($5::uuid[]), false))) is true or "item"."changed_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot()))) and ("item"."changed_in", "item"."id") > (case when case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end > $7::xid8 then '0'::xid8 when case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end = $7::xid8 then least($8::xid8, $7::xid8) else $7::xid8 end, case when case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end > $7::xid8 then '00000000-0000-0000-0000-000000000000'::uuid when $8::xid8 > $7::xid8 then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
    when $7::xid8 in (case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end, $8::xid8) then $9::uuid else '00000000-0000-0000-0000-000000000000'::uuid end) and "item"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) and case when "project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) then "project"."visible_in" else '0'::xid8 end < pg_snapshot_xmin(pg_current_snapshot())
  order by "item"."deleted_at", "item"."changed_in", "item"."id" limit $10::int + 1) reached
      where ("project"."visible_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) and "project"."deleted_at" is null))) seen
        union all select * from (
  select greatest("tombstone"."changed_in", '0'::xid8) as at, "tombstone"."changed_in" as changed_in, "tombstone"."task_id" as id , false as is_seen
  from task_tombstones tombstone where "tombstone"."project_id" is null and "tombstone"."user_id" is null and "tombstone"."changed_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) and not exists (select from tasks where "tasks"."id" = "tombstone"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $11::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $11::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $11::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (true and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and ("tombstone"."changed_in", "tombstone"."task_id") > (case when '0'::xid8 > $7::xid8 then '0'::xid8 when '0'::xid8 = $7::xid8 then least($8::xid8, $7::xid8) else $7::xid8 end, case when '0'::xid8 > $7::xid8 then '00000000-0000-0000-0000-000000000000'::uuid when $8::xid8 > $7::xid8 then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
    when $7::xid8 in ('0'::xid8, $8::xid8) then $9::uuid else '00000000-0000-0000-0000-000000000000'::uuid end) and "tombstone"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) and '0'::xid8 < pg_snapshot_xmin(pg_current_snapshot())
  order by  "tombstone"."changed_in", "tombstone"."task_id" limit $10::int + 1) lost union all
    select reached.* from membership_tombstones ended cross join lateral (
      (
  select "ended"."left_in" as at, "item"."changed_in" as changed_in, "item"."id" as id , exists (select from tasks where "tasks"."id" = "item"."id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $11::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $11::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $11::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (true and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and (
    ($1::bool or "item"."project_id" = any($2::uuid[]) or ($3::bool and "item"."project_id" is null))
    and ($4::bool or coalesce("item"."assignee_id" = any($5::uuid[]), false))) is true as is_seen
  from tasks item where "item"."project_id" = "ended"."project_id" and "item"."deleted_at" is null
          and coalesce("item"."placed_at", "item"."created_at") <= "ended"."created_at" and not exists (select from projects where "projects"."id" = "ended"."project_id" and "projects"."deleted_at" is null offset 0) and ("item"."changed_in", "item"."id") > (case when "ended"."left_in" = $7::xid8 then $8::xid8 else '0'::xid8 end, case when "ended"."left_in" = $7::xid8 then $9::uuid else '00000000-0000-0000-0000-000000000000'::uuid end)
  order by "item"."deleted_at", "item"."changed_in", "item"."id" limit $10::int + 1) union all (
  select "ended"."left_in" as at, "tombstone"."changed_in" as changed_in, "tombstone"."task_id" as id , false as is_seen
  from task_tombstones tombstone where "tombstone"."project_id" = "ended"."project_id" and "tombstone"."user_id" is null and "tombstone"."placed_at" <= "ended"."created_at" and "tombstone"."changed_in" >= coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())) and not exists (select from tasks where "tasks"."id" = "tombstone"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $11::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $11::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $11::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (true and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and ("tombstone"."changed_in", "tombstone"."task_id") > (case when "ended"."left_in" = $7::xid8 then $8::xid8 else '0'::xid8 end, case when "ended"."left_in" = $7::xid8 then $9::uuid else '00000000-0000-0000-0000-000000000000'::uuid end)
  order by  "tombstone"."changed_in", "tombstone"."task_id" limit $10::int + 1)
    ) reached
    where "ended"."user_id" is null
      and "ended"."left_in" >= greatest(coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot())), $7::xid8) and "ended"."left_in" < pg_snapshot_xmin(pg_current_snapshot())) found
      order by at, changed_in, id limit $10::int + 1
    ), numbered as (
      select picked.*, row_number() over (order by at, changed_in, id) as ordinal from picked
    ),
rendered (ordinal, json, octets) as (
  select 0::bigint, null::text, 0
  union all
  select numbered.ordinal, item.json, numbered.octets + coalesce(octet_length(item.json), 0)
  from (
    select numbered.*, octets from rendered join numbered on numbered.ordinal = rendered.ordinal + 1
    where octets < 1048576 and numbered.ordinal <= $10::int offset 0
  ) numbered cross join lateral (select (select (select row_to_json(fields)::text from (select "task"."id" as id, "task"."title" as title, "task"."description" as description, "task"."status" as status, "task"."priority" as priority, to_char("task"."start_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as start_at, "task"."start_on" as start_on, to_char("task"."due_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as due_at, "task"."due_on" as due_on, to_char("task"."completed_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as completed_at, "task"."owner_id" as owner_id, "task"."assignee_id" as assignee_id, "task"."project_id" as project_id, "task"."section_id" as section_id, "task"."parent_id" as parent_id, "task"."position" as position, ("task"."recurrence" || jsonb_build_object('anchor', "task"."recurrence_anchor" -> 'of')) as recurrence, case when "task"."series_id" is not null then (select row_to_json(fields)::text from (select "task"."series_id" as series_id, "task"."occurrence_number" as number, to_char("task"."occurrence_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, "task"."occurrence_on" as on, "task"."next_task_id" as next_task_id) fields)::json end as occurrence, "task"."metadata" as metadata, "task"."external_source" as external_source, "task"."external_id" as external_id, (select '[' || coalesce(string_agg((select row_to_json(fields)::text from (select "tag"."id" as id, "tag"."name" as name, "tag"."color" as color, "tag"."owner_id" as owner_id, "tag"."project_id" as project_id, to_char("tag"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',' order by "tag"."name_folded", "tag"."id"), '') || ']' from task_tags link join tags tag on "tag"."id" = "link"."tag_id" and "tag"."deleted_at" is null where "link"."task_id" = "task"."id")::json as tags, "task"."attachment_count" as attachment_count, ("task"."blocker_count" > 0 and is_blocked("task"."id", $11::uuid, (select $12::bool))) as is_blocked, "task"."comment_count" as comment_count, "task"."subtask_count" as subtask_count, "task"."open_subtask_count" as open_subtask_count, "task"."version" as version, ("task"."version" + "task"."side_changes") as revision, to_char("task"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("task"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) from tasks task where "task"."id" = numbered.id and is_seen) as json offset 0) item
), page as (
      select id, at, changed_in, is_seen, ordinal, json, ordinal = max(ordinal) over (partition by id) as is_last
      from numbered join rendered using (ordinal)
    )
    select
      coalesce($13::int <> coalesce(epoch, 1) or $6::xid8 <= coalesce(pruned_through, '0')
        or $7::xid8 > pg_snapshot_xmin(pg_current_snapshot()), false) as is_expired,
      (select '[' || coalesce(string_agg(json, ',' order by ordinal), '') || ']' from page where is_last and is_seen) as changed,
      (select '[' || coalesce(string_agg(to_json(id)::text, ',' order by ordinal), '') || ']'
        from page where is_last and not is_seen) as deleted,
      (select count(*) from numbered) > (select count(*) from page) as has_more,
      (select at::text from page order by ordinal desc limit 1) as last_at,
      (select changed_in::text from page order by ordinal desc limit 1) as last_changed_in,
      (select id::text from page order by ordinal desc limit 1) as last_id,
      coalesce(epoch, 1) as epoch, pg_snapshot_xmin(pg_current_snapshot())::text as horizon, coalesce($6::xid8, pg_snapshot_xmin(pg_current_snapshot()))::text as tombstones_from
    from (values (true)) always left join change_history history on "history"."singleton";
