/* tags.delete */
  with target as (
    select * from tags tag where id = $1::uuid and (tag.deleted_at is null and ((tag.owner_id = $2::uuid and tag.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = tag.project_id and true offset 0) or exists (
  select from tag_counts counted
  where counted.tag_id = tag.id and case when counted.user_id is null then exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = counted.project_id and true offset 0) else counted.user_id = $2::uuid and (counted.project_id is null or (not exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = counted.project_id and true offset 0) and exists (select from projects where projects.id = counted.project_id and projects.deleted_at is null offset 0))) end) or (select $3::bool))) for update
  ), checked as (
    select id, case
when not (((target.owner_id = $2::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or (select $3::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.id::text is not null and array[target.id::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.id::text is not null and array[target.id::text, '*'] && $5::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($2::uuid) end as outcome from target
  ), deleted as (
    update tags set deleted_at = now() from checked
    where tags.id = checked.id and checked.outcome = 'done' returning tags.id
  ), untagged as (
    delete from task_tags where (task_id, tag_id) in (
      select task_id, tag_id from task_tags join deleted on deleted.id = tag_id
      order by task_id limit 100)
  )
  select outcome from checked;
