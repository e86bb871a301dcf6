/* refresh_tokens.repeat */
with token as (
  select next.* from refresh_tokens shown join refresh_tokens next using (session_id)
  where shown.hash = $1::bytea and shown.spent_at between now() - interval '30 seconds' and now() + interval '30 seconds'
    and next.hash in (select decode(hash, 'hex') from unnest($2::text[]) hash)
    and next.spent_at is null and next.expires_at > now()
), session as (
  select sessions.* from sessions join token on sessions.id = token.session_id where sessions.expires_at > now()
), person as (
  select users.* from users join session on users.id = session.user_id
)
select session.id::text as session_id, person.id::text as user_id, (select row_to_json(fields)::text from (select person.id as id, person.username as username, person.display_name as display_name, case when (person.id = person.id or false) then person.email end as email, person.role as role, person.time_zone as time_zone, person.is_disabled as is_disabled, case when (person.id = person.id or false) then person.attachment_quota_bytes end as attachment_quota_bytes, case when (person.id = person.id or false) then person.task_quota end as task_quota, to_char(person.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(person.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, person.version as version) fields) as user_json, floor(extract(epoch from token.expires_at - now()::timestamptz(3)))::int as expires_in, (extract(epoch from token.created_at) * 1000)::bigint as issued_at, greatest(floor(extract(epoch from now()::timestamptz(3) - token.created_at)), 0)::int as age, token.hash as next_hash from person, session, token;
