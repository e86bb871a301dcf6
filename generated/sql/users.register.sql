/* users.register */
    with first as (
insert into installation (singleton) values (true) on conflict do nothing returning *
    ),
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
  ), person as (
      insert into users (id, username, email, display_name, time_zone, password_hash, role) select $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::text, case when exists (select from first) then 'admin' else 'member' end
      where ($8::bool or exists (select from first))
        and ($1::bytea is null or exists (select from invitation))
      returning *
    ), joined as (
  insert into project_members as member (project_id, user_id, role) select invitation.project_id, person.id, invitation.role from person, invitation where done_by(person.id) = 'done'
  on conflict (project_id, user_id) do update set role = excluded.role
    where role_rank(excluded.role) > role_rank(member.role)
    ),
  session as (
    insert into sessions (id, user_id, expires_at, user_agent, address) select $9::uuid, person.id, now() + interval '30 days', $10::text, $11::text from person returning *
  ), token as (
    insert into refresh_tokens (hash, session_id, expires_at) select $12::bytea, session.id, least(now() + interval '7 days', session.expires_at) from session returning *
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $11::text, $10::text, $13::text from (
select $14::uuid as id, 'user.registered' as action, user_id as actor_id,
  user_id as user_id, id as session_id, $15::uuid as token_id from session) event returning *)
  select session.id::text as session_id, person.id::text as user_id, (select row_to_json(fields)::text from (select person.id as id, person.username as username, person.display_name as display_name, case when (person.id = person.id or false) then person.email end as email, person.role as role, person.time_zone as time_zone, person.is_disabled as is_disabled, case when (person.id = person.id or false) then person.attachment_quota_bytes end as attachment_quota_bytes, case when (person.id = person.id or false) then person.task_quota end as task_quota, to_char(person.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(person.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, person.version as version) fields) as user_json, floor(extract(epoch from token.expires_at - now()::timestamptz(3)))::int as expires_in, (extract(epoch from token.created_at) * 1000)::bigint as issued_at, greatest(floor(extract(epoch from now()::timestamptz(3) - token.created_at)), 0)::int as age,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from person, session, token;
