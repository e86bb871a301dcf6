/* invitations.delete */
    with checked as (
      select id, case
when not ((project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $2::bool)))) then 'forbidden'
when not (true) then 'reauthentication_required'
else done_by($1::uuid) end as outcome
      from projects project where id = $3::uuid and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = project.id and true offset 0) or (select $2::bool)))
    ), deleted as (
      delete from invitations using checked
      where invitations.id = $4::uuid and invitations.project_id = checked.id and checked.outcome = 'done' returning invitations.id
    )
    select case when outcome = 'done' and not exists (select from deleted) then 'missing' else outcome end as outcome
    from checked;
