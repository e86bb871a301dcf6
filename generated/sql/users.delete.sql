/* users.delete */
    with admins as materialized (
      select id from users where role = 'admin' and not is_disabled and exists (select from users person where person.id = $1::uuid and person.role = 'admin') order by id for update
    ), target as (
      select * from users person
      where id = $1::uuid and (person.deleted_at is null and (true)) and (select count(*) from admins) is not null
      for update
    ), checked as (
      select id, case
when not (((target.id = $2::uuid and (select $3::bool)) or ((select $4::bool) and target.id <> $2::uuid))) then 'forbidden'
when not ((not (select $3::bool) or $5::uuid is null or exists (
select from sessions where id = $5::uuid and authenticated_at between now() - interval '15 minutes' and now() + interval '15 minutes'))) then 'reauthentication_required'
when $6::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $6::text[]) then 'precondition_failed'
    when $7::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $7::text[]) then 'precondition_failed'
when target.role = 'admin' and not target.is_disabled and not exists (select from admins where admins.id <> target.id) then 'last_admin'
else done_by($2::uuid) end as outcome
      from target
    ), removed as (
      update users set deleted_at = now(), username = users.id::text, email = users.id::text, display_name = '', role = 'member', password_hash = ''
      from checked where users.id = checked.id and checked.outcome = 'done' returning users.id
    ), removed_tags as (
      update tags set deleted_at = now() from removed
      where owner_id = removed.id and project_id is null and deleted_at is null
    ), ended_sessions as (
      delete from sessions using removed where user_id = removed.id
    ), ended_tokens as (
      delete from api_tokens using removed where user_id = removed.id
    ), ended_one_time_tokens as (
      delete from one_time_tokens using removed where user_id = removed.id
    ), ended_second_factors as (
      delete from second_factors using removed where user_id = removed.id
    ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $8::text, $9::text, $10::text from (
select $11::uuid as id, 'user.deleted' as action, $12::uuid as actor_id,
  id as user_id, $5::uuid as session_id, $13::uuid as token_id from removed) event returning *)
    select outcome,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from checked;
