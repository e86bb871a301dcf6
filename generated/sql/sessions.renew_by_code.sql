/* sessions.renew_by_code */
with
stepped as (
  update second_factors set last_step = $1::bigint
  where user_id = $2::uuid and confirmed_at is not null and last_step < $1::bigint returning user_id
), recovered as (
  delete from recovery_codes where user_id = $2::uuid and hash = $3::bytea returning user_id
), proven as (
  select user_id as id from stepped union all select user_id from recovered
), person as (select id from proven), cleared as (
  delete from attempts using person where attempts.key = $4::bytea
), renewed as (
  update sessions set authenticated_at = now() from person
  where sessions.id = $5::uuid and sessions.user_id = person.id
  returning sessions.id, sessions.user_id
), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $6::text, $7::text, $8::text from (
select $9::uuid as id, 'session.reauthenticated' as action, $10::uuid as actor_id,
  user_id as user_id, $5::uuid as session_id, $11::uuid as token_id from renewed) event returning *)
select renewed.id::text,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from renewed;
