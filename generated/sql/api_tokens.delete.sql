/* api_tokens.delete */
    with token as (
      delete from api_tokens token
      where id = $1::uuid and user_id = $2::uuid and (token.user_id = $3::uuid) returning *
    ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $4::text, $5::text, $6::text from (
select $7::uuid as id, 'api_token.revoked' as action, $8::uuid as actor_id,
  user_id as user_id, $9::uuid as session_id, id as token_id from token) event returning *)
    select token.id::text,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from token;
