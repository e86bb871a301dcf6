/* api_tokens.insert */ with
      token as (
        insert into api_tokens (id, user_id, name, hash, scopes, expires_at) select $1::uuid, $2::uuid, $3::text, $4::bytea, $5::text[], $6::timestamptz
        where $6::timestamptz is null or $6::timestamptz > now() returning *
      ), created as (
        select id, left((select row_to_json(fields)::text from (select token.id as id, token.name as name, token.scopes as scopes, to_char(token.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(token.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at, to_char(token.last_used_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as last_used_at) fields), -1) || ',"sealed_token":"' || $7::text || '"}' as json from token
      ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $8::text, $9::text, $10::text from (
select $11::uuid as id, 'api_token.created' as action, $12::uuid as actor_id,
  user_id as user_id, $13::uuid as session_id, id as token_id from token) event returning *), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $2::uuid, $14::text, $15::text, $16::text, id, json
  from created where $15::text is not null and json is not null) select (select row_to_json(fields)::text from (select token.id as id, token.name as name, token.scopes as scopes, to_char(token.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(token.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at, to_char(token.last_used_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as last_used_at) fields) as json,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from token;
