/* live_credentials.select */
  select "session"."id"::text, "person"."role"
from sessions session join users person on "person"."id" = "session"."user_id"
where "session"."expires_at" > now() and "person"."deleted_at" is null and not "person"."is_disabled" and "session"."id" = any($1::uuid[])
  union all
  select "token"."id"::text, "person"."role"
from api_tokens token join users person on "person"."id" = "token"."user_id"
where ("token"."expires_at" is null or "token"."expires_at" > now()) and "person"."deleted_at" is null
  and not "person"."is_disabled" and not coalesce("person"."sign_in_due_at" <= now(), false) and "token"."id" = any($2::uuid[]);
