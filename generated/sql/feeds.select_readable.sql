/* feeds.select_readable */
select "person"."id"::text as user_id, "person"."role", "person"."time_zone", "person"."task_quota", "feed"."id"::text as id, "feed"."name", "feed"."filter", "feed"."kind", "feed"."alarms", "feed"."color",
  "feed"."version", "feed"."revoked_at" is not null as is_revoked
from feeds feed join users person on "person"."id" = "feed"."owner_id"
where "feed"."id" = $1::uuid and "feed"."hash" = $2::bytea and "person"."deleted_at" is null and not "person"."is_disabled"
  and not coalesce("person"."sign_in_due_at" <= now(), false);
