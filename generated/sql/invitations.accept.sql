/* invitations.accept */
with
project as materialized (
  select project.id from invitations invitation join projects project on project.id = invitation.project_id
  where invitation.hash = $1::bytea and (invitation.expires_at > now() and (project.deleted_at is null and (exists (
select from memberships membership
where membership.user_id = invitation.invited_by and membership.project_id = project.id and membership.role in ('manager') offset 0) or exists (
  select from users where users.id = invitation.invited_by and users.role = 'admin' and users.deleted_at is null))))
  for update of project
), invitation as (
  delete from invitations using project where invitations.hash = $1::bytea and invitations.project_id = project.id
  returning invitations.*
), joined as (
insert into project_members as member (project_id, user_id, role) select invitation.project_id, $2::uuid, invitation.role from invitation where done_by($2::uuid) = 'done'
on conflict (project_id, user_id) do update set role = excluded.role
  where role_rank(excluded.role) > role_rank(member.role))
select invitation.project_id::text from invitation;
