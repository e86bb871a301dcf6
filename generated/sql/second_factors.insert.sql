/* second_factors.insert */
    with person as (
      select * from users where id = $1::uuid and password_hash = $2::text
    ), factor as (
      insert into second_factors as factor (user_id, secret) select person.id, $3::bytea from person
      on conflict (user_id) do update set secret = excluded.secret, created_at = now() where factor.confirmed_at is null
      returning *
    ), cleared as (
      delete from attempts using person where attempts.key = $4::bytea
    ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $5::text, $6::text, $7::text from (
select $8::uuid as id, 'second_factor.enrolled' as action, $9::uuid as actor_id,
  user_id as user_id, $10::uuid as session_id, $11::uuid as token_id from factor) event returning *)
    select factor.user_id::text, person.username,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit
    from factor, person;
