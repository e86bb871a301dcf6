/* users.update */
    with admins as materialized (
      select id from users where role = 'admin' and not is_disabled and $1::bool order by id for update
    ), target as (
      select * from users person
      where id = $2::uuid and (person.deleted_at is null and (true)) and (select count(*) from admins) is not null
      for no key update
    ), checked as (
      select id, case
when not ((target.id = $3::uuid or (select $4::bool))
          and (coalesce($5::jsonb ->> 'role' = target.role, true) or (((select $4::bool) and (select $6::bool))))
          and (coalesce($5::jsonb ->> 'email' = target.email, true) or ((target.id = $3::uuid and (select $6::bool)) or ((select $4::bool) and (select $6::bool))))
          and (coalesce(($5::jsonb ->> 'is_disabled')::bool, target.is_disabled) = target.is_disabled or (((select $4::bool) and target.id <> $3::uuid)))
          and ((case when $5::jsonb ? 'attachment_quota_bytes' then ($5::jsonb ->> 'attachment_quota_bytes')::bigint else target.attachment_quota_bytes end is not distinct from target.attachment_quota_bytes
    and case when $5::jsonb ? 'task_quota' then ($5::jsonb ->> 'task_quota')::bigint else target.task_quota end is not distinct from target.task_quota) or ((select $4::bool)))) then 'forbidden'
when not (coalesce($5::jsonb ->> 'email' = target.email, true) or (not (select $6::bool) or $7::uuid is null or exists (
select from sessions where id = $7::uuid and authenticated_at between now() - interval '15 minutes' and now() + interval '15 minutes'))) then 'reauthentication_required'
when $8::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $8::text[]) then 'precondition_failed'
    when $9::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $9::text[]) then 'precondition_failed'
when target.role = 'admin' and not target.is_disabled and not exists (select from admins where admins.id <> target.id) and $1::bool then 'last_admin'
          when $5::jsonb ->> 'email' <> target.email and target.id = $3::uuid
            and count_tokens(target.id, 'undo_email', interval '1 day') >= 5
            then 'email_changed_often'
else done_by($3::uuid) end as outcome
      from target
    ), changed as (
      update users person set username = coalesce($5::jsonb ->> 'username', person.username), email = coalesce($5::jsonb ->> 'email', person.email), display_name = coalesce($5::jsonb ->> 'display_name', person.display_name), role = coalesce($5::jsonb ->> 'role', person.role), time_zone = coalesce($5::jsonb ->> 'time_zone', person.time_zone), is_disabled = coalesce(($5::jsonb ->> 'is_disabled')::bool, person.is_disabled), attachment_quota_bytes = case when $5::jsonb ? 'attachment_quota_bytes' then ($5::jsonb ->> 'attachment_quota_bytes')::bigint else person.attachment_quota_bytes end, task_quota = case when $5::jsonb ? 'task_quota' then ($5::jsonb ->> 'task_quota')::bigint else person.task_quota end
      from checked where person.id = checked.id and checked.outcome = 'done'
      returning person.*
    ), voided as (
      delete from one_time_tokens using changed join target using (id)
      where user_id = changed.id and changed.email <> target.email and purpose <> 'undo_email'
    ), undoing as (
      insert into one_time_tokens (hash, purpose, user_id, email, expires_at) select $10::bytea, 'undo_email', id, target.email, now() + interval '7 days' from changed join target using (id)
      where changed.email <> target.email and id = $3::uuid
    ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $11::text, $12::text, $13::text from (
select $14::uuid as id, 'user.email_changed' as action, $15::uuid as actor_id,
  id as user_id, $7::uuid as session_id, $16::uuid as token_id from changed join target using (id)
        where changed.email <> target.email
        union all
select $17::uuid as id, 'user.role_changed' as action, $15::uuid as actor_id,
  id as user_id, $7::uuid as session_id, $16::uuid as token_id from changed join target using (id)
        where changed.role <> target.role
        union all
select $18::uuid as id, 'user.disabled' as action, $15::uuid as actor_id,
  id as user_id, $7::uuid as session_id, $16::uuid as token_id from changed join target using (id) where changed.is_disabled <> target.is_disabled and changed.is_disabled
        union all
select $18::uuid as id, 'user.enabled' as action, $15::uuid as actor_id,
  id as user_id, $7::uuid as session_id, $16::uuid as token_id from changed join target using (id) where changed.is_disabled <> target.is_disabled and not changed.is_disabled
        union all
select $19::uuid as id, 'user.quota_changed' as action, $15::uuid as actor_id,
  id as user_id, $7::uuid as session_id, $16::uuid as token_id from changed join target using (id)
        where (changed.attachment_quota_bytes, changed.task_quota)
          is distinct from (target.attachment_quota_bytes, target.task_quota)) event returning *)
    select outcome, (select row_to_json(fields)::text from (select changed.id as id, changed.username as username, changed.display_name as display_name, case when (changed.id = $3::uuid or (select $4::bool)) then changed.email end as email, changed.role as role, changed.time_zone as time_zone, changed.is_disabled as is_disabled, case when (changed.id = $3::uuid or (select $4::bool)) then changed.attachment_quota_bytes end as attachment_quota_bytes, case when (changed.id = $3::uuid or (select $4::bool)) then changed.task_quota end as task_quota, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, changed.version as version) fields) as json, changed.version,
      coalesce((changed.id = $3::uuid or (select $4::bool)), false) as shows_private,
      (select target.email from target where target.email <> changed.email) as previous_email,
      case when changed.is_disabled then end_access(changed.id, null) end,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit
    from checked left join changed on true;
