/* sessions.delete_all */
  with session as (
    delete from sessions session where (session.user_id = $1::uuid)
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $2::text, $3::text, $4::text from (
select $5::uuid as id, 'session.all_ended' as action, $6::uuid as actor_id,
  $1::uuid as user_id, $7::uuid as session_id, $8::uuid as token_id) event returning *)
  select
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit;
