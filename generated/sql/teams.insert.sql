/* teams.insert */ with
  team as (insert into teams (id, name) values ($1::uuid, $2::text) returning *),
  member as (insert into team_members (team_id, user_id, role) select id, $3::uuid, 'manager' from team),
  created as (select id, (select row_to_json(fields)::text from (select team.id as id, team.name as name, 'manager' as role, team.version as version, to_char(team.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(team.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json from team), kept as (
insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $3::uuid, $4::text, $5::text, $6::text, id, json
from created where $5::text is not null and json is not null) select json from created;
