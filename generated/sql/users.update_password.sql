/* users.update_password */
  with person as (
    update users set password_hash = $1::text
    where id = $2::uuid and password_hash = $3::text returning id
  ), cleared as (
    delete from attempts using person where attempts.key = $4::bytea
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $5::text, $6::text, $7::text from (
select $8::uuid as id, 'password.changed' as action, $9::uuid as actor_id,
  id as user_id, $10::uuid as session_id, $11::uuid as token_id from person) event returning *)
  select person.id::text, end_access(id, $10::uuid),
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from person;
