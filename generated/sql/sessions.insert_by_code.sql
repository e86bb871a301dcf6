/* sessions.insert_by_code */
  with
stepped as (
  update second_factors set last_step = $1::bigint
  where user_id = $2::uuid and confirmed_at is not null and last_step < $1::bigint returning user_id
), recovered as (
  delete from recovery_codes where user_id = $2::uuid and hash = $3::bytea returning user_id
), proven as (
  select user_id as id from stepped union all select user_id from recovered
), challenge as (
    delete from one_time_tokens using proven
    where (one_time_tokens.hash = $4::bytea and one_time_tokens.purpose = 'sign_in' and one_time_tokens.expires_at > now()) and user_id = proven.id
    returning user_id
  ), person as (
    select users.* from users join challenge on users.id = challenge.user_id where not users.is_disabled
  ), cleared as (
    delete from attempts using person where attempts.key = $5::bytea
  ),
  session as (
    insert into sessions (id, user_id, expires_at, user_agent, address) select $6::uuid, person.id, now() + interval '30 days', $7::text, $8::text from person returning *
  ), token as (
    insert into refresh_tokens (hash, session_id, expires_at) select $9::bytea, session.id, least(now() + interval '7 days', session.expires_at) from session returning *
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $8::text, $7::text, $10::text from (
select $11::uuid as id, 'sign_in.succeeded' as action, user_id as actor_id,
  user_id as user_id, id as session_id, $12::uuid as token_id from session) event returning *)
  select session.id::text as session_id, person.id::text as user_id, (select row_to_json(fields)::text from (select person.id as id, person.username as username, person.display_name as display_name, case when (person.id = person.id or false) then person.email end as email, person.role as role, person.time_zone as time_zone, person.is_disabled as is_disabled, case when (person.id = person.id or false) then person.attachment_quota_bytes end as attachment_quota_bytes, case when (person.id = person.id or false) then person.task_quota end as task_quota, to_char(person.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(person.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, person.version as version) fields) as user_json, floor(extract(epoch from token.expires_at - now()::timestamptz(3)))::int as expires_in, (extract(epoch from token.created_at) * 1000)::bigint as issued_at, greatest(floor(extract(epoch from now()::timestamptz(3) - token.created_at)), 0)::int as age,
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from person, session, token;
