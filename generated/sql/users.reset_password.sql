/* users.reset_password */
  with token as (
    delete from one_time_tokens where (one_time_tokens.hash = $1::bytea and one_time_tokens.purpose = 'reset_password' and one_time_tokens.expires_at > now())
    returning user_id
  ), person as (
    update users set password_hash = $2::text from token
    where users.id = token.user_id returning users.id
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $3::text, $4::text, $5::text from (
select $6::uuid as id, 'password.reset' as action, id as actor_id,
  id as user_id, $7::uuid as session_id, $8::uuid as token_id from person) event returning *)
  select person.id::text as user_id, end_access(id, null),
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from person;
