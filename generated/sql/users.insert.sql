/* users.insert */ with
      installed as (
insert into installation (singleton) values (true) on conflict do nothing returning *
      ), person as (
        insert into users (id, username, email, display_name, role, time_zone, password_hash) select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text
        where $5::text <> 'admin' or (((select $8::bool) and (select $9::bool)))
        returning *
      ), created as (
        select id, (select row_to_json(fields)::text from (select person.id as id, person.username as username, person.display_name as display_name, case when (person.id = $10::uuid or (select $8::bool)) then person.email end as email, person.role as role, person.time_zone as time_zone, person.is_disabled as is_disabled, case when (person.id = $10::uuid or (select $8::bool)) then person.attachment_quota_bytes end as attachment_quota_bytes, case when (person.id = $10::uuid or (select $8::bool)) then person.task_quota end as task_quota, to_char(person.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(person.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, person.version as version) fields) as json from person
      ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $11::text, $12::text, $13::text from (
select $14::uuid as id, 'user.created' as action, $15::uuid as actor_id,
  id as user_id, $16::uuid as session_id, $17::uuid as token_id from person) event returning *), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $10::uuid, $18::text, $19::text, $20::text, id, json
  from created where $19::text is not null and json is not null) select json,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from created;
