/* one_time_tokens.insert_reset */
    with person as (
      select id from users where email = $1::text for no key update
    ), stored as (
      insert into one_time_tokens (hash, purpose, user_id, email, expires_at) select $2::bytea, 'reset_password', person.id, null::text, now() + interval '1800 seconds' from person
      where count_tokens(id, 'reset_password', interval '1 hour') < 3
      returning user_id
    ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $3::text, $4::text, $5::text from (
select $6::uuid as id, 'password.reset_requested' as action, $7::uuid as actor_id,
  (select id from person) as user_id, $8::uuid as session_id, $9::uuid as token_id) event returning *)
    select exists (select from stored) as is_stored,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit;
