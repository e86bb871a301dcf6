/* users.set_password */
  with target as (
    select * from users person where id = $1::uuid and (person.deleted_at is null and (true)) for no key update
  ), checked as (
    select id, case
when not ((((select $2::bool) and target.id <> $3::uuid))) then 'forbidden'
when not ((not (select $4::bool) or $5::uuid is null or exists (
select from sessions where id = $5::uuid and authenticated_at between now() - interval '15 minutes' and now() + interval '15 minutes'))) then 'reauthentication_required'
when $6::text[] is not null and coalesce('*' = any($6::text[]), false) and true then 'precondition_failed'
else done_by($3::uuid) end as outcome
    from target
  ), person as (
    update users set password_hash = $7::text from checked
    where users.id = checked.id and checked.outcome = 'done' returning users.id
  ), factor as (
    delete from second_factors using person where user_id = person.id and $8::bool
    returning user_id as id
  ), audit as (insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id) select event.id, event.action, event.actor_id, event.user_id, event.session_id, event.token_id, $9::text, $10::text, $11::text from (
select $12::uuid as id, 'password.set' as action, $13::uuid as actor_id,
  id as user_id, $5::uuid as session_id, $14::uuid as token_id from person
      union all
select $15::uuid as id, 'second_factor.disabled' as action, $13::uuid as actor_id,
  id as user_id, $5::uuid as session_id, $14::uuid as token_id from factor) event returning *)
  select outcome, end_access(person.id, null),
(select '[' || string_agg((select row_to_json(fields)::text from (select audit.id as id, audit.action as action, audit.actor_id as actor_id, audit.user_id as user_id, audit.session_id as session_id, audit.token_id as token_id, audit.address as address, audit.user_agent as user_agent, audit.request_id as request_id, to_char(audit.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',') || ']' from audit) as audit from checked left join person on true;
