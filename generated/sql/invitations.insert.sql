/* invitations.insert */ with
      sender as materialized (
        select * from users where id = $1::uuid for no key update
      ), project as (
        select * from projects project
        where id = $2::uuid and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = project.id and true offset 0) or (select $3::bool)))
          and (select count(*) from sender) is not null
        for key share
      ), checked as (
        select id, name, case
when not ((project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = project.id and membership.role in ('manager') offset 0) or (select $3::bool)))) then 'forbidden'
when not (true) then 'reauthentication_required'
            when count_invitations_by($1::uuid) >= $4::int then 'invited_many'
            when count_invitations_to($5::text) >= 5 then 'address_invited_often'
else done_by($1::uuid) end as outcome
        from project
      ), invitation as (
        insert into invitations as invitation (id, role, hash, invited_by, created_at, expires_at, project_id, email) select $6::uuid, $7::text, $8::bytea, $1::uuid, now(), now() + interval '7 days', checked.id, $9::text from checked where outcome = 'done'
        on conflict (project_id, email) do update set id = $6::uuid, role = $7::text, hash = $8::bytea, invited_by = $1::uuid, created_at = now(), expires_at = now() + interval '7 days'
        returning *
      ), mail as (
        insert into invitation_mails (id, mailbox, invited_by) select id, $5::text, invited_by from invitation
      ), created as (
        select id, (select row_to_json(fields)::text from (select invitation.id as id, invitation.project_id as project_id, invitation.email as email, invitation.role as role, invitation.invited_by as invited_by, to_char(invitation.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(invitation.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at) fields) as json from invitation
      ), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $1::uuid, $10::text, $11::text, $12::text, id, json
  from created where $11::text is not null and json is not null)
      select outcome, json, checked.name as project_name, sender.display_name as invited_by_name
      from checked cross join sender left join created on true;
