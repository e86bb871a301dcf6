/* api_tokens.select_live_by_id */
select "token"."id"::text, "person"."id"::text as user_id, "person"."role", "person"."time_zone", "person"."task_quota",
  array_to_string("token"."scopes", ' ') as scopes,
  least(
    floor(extract(epoch from least("token"."expires_at", "person"."sign_in_due_at") - now()) * 1000), 86400000
  )::int as expires_in, coalesce("person"."sign_in_due_at" <= now(), false) as is_suspended
from api_tokens token join users person on "person"."id" = "token"."user_id"
where ("token"."expires_at" is null or "token"."expires_at" > now()) and "person"."deleted_at" is null
  and not "person"."is_disabled" and "token"."id" = $1::uuid;
