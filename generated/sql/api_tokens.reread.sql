/* api_tokens.reread */
select (select row_to_json(fields)::text from (select "token"."id" as id, "token"."name" as name, "token"."scopes" as scopes, to_char("token"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("token"."expires_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at, to_char("token"."last_used_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as last_used_at) fields) as json, coalesce("token"."expires_at" <= now(), false) as is_expired
from api_tokens token where "token"."id" = $1::uuid;
