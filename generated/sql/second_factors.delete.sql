/* second_factors.delete */
  with recovered as (
    delete from recovery_codes where user_id = $1::uuid and hash = $2::bytea returning user_id
  ), factor as (
    delete from second_factors
    where user_id = $1::uuid and confirmed_at is not null
      and (last_step < $3::bigint or exists (select from recovered))
    returning user_id
  ), voided as (
    delete from one_time_tokens using factor
    where one_time_tokens.user_id = factor.user_id and purpose = 'sign_in'
  ), code_cleared as (
    delete from attempts using factor where attempts.key = $4::bytea
  ), password_cleared as (
    delete from attempts using factor where attempts.key = $5::bytea
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $6::text, $7::text, $8::text from (
select $9::uuid as id, 'second_factor.disabled' as action, $10::uuid as actor_id,
  user_id as user_id, $11::uuid as session_id, $12::uuid as token_id from factor) event returning *)
  select factor.user_id::text,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from factor;
