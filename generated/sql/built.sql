/* api_tokens.delete */
delete from "api_tokens"
where "api_tokens"."id" = $1::uuid;

/* api_tokens.insert */
insert into "api_tokens" ("id", "user_id", "name", "hash", "scopes", "created_at", "expires_at", "last_used_at")
values ($1::uuid, $2::uuid, $3::text, $4::bytea, $5::text[], default, $6::timestamptz, default);

/* api_tokens.lock */
select "id"
from "api_tokens"
where "api_tokens"."id" = $1::uuid
for update;

/* api_tokens.select_facts */
select "id"
from "api_tokens"
where ("api_tokens"."id" = $1::uuid and "api_tokens"."user_id" = $2::uuid);

/* attachments.delete */
delete from "attachments"
where "attachments"."id" = $1::uuid;

/* attachments.insert */
insert into "attachments" ("id", "task_id", "file_name", "content_type", "detected_content_type", "size", "sha256", "storage_key", "uploaded_by", "created_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::bigint, $7::text, $8::text, $9::uuid, default);

/* attachments.insert_imported */
insert into "attachments" ("id", "task_id", "file_name", "content_type", "detected_content_type", "size", "sha256", "storage_key", "uploaded_by", "created_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::bigint, $7::text, $8::text, $9::uuid, coalesce(least($10::timestamptz, now()), now()));

/* attachments.lock_uploader */
select "id"
from "users"
where "users"."id" = (select uploaded_by
from attachments
where attachments.id = $1::uuid)
for no key update;

/* attachments.select_by_storage_key */
select "id"
from "attachments"
where "attachments"."storage_key" = any($1::text[])
order by "attachments"."storage_key";

/* attachments.select_facts */
select "file_name", "content_type", "size", "sha256", "uploaded_by"
from "attachments"
where "attachments"."id" = $1::uuid;

/* attachments.select_task_id */
select "task_id"
from "attachments"
where "attachments"."id" = $1::uuid;

/* attempts.forget */
delete from "attempts"
where "attempts"."key" = $1::bytea;

/* attempts.take_back */
update "attempts"
set "failures" = "attempts"."failures" - 1, "delayed_until" = case when "attempts"."failures" <= $1::int then '-infinity' else "attempts"."delayed_until" end
where "attempts"."key" = $2::bytea;

/* audit_events.record */
insert into "audit_events" ("id", "action", "actor_id", "user_id", "session_id", "token_id", "address", "user_agent", "request_id", "created_at")
values ($1::uuid, $2::text, $3::uuid, $4::uuid, $5::uuid, $6::uuid, $7::text, $8::text, $9::text, default)
returning "created_at";

/* comments.delete */
delete from "comments"
where "comments"."id" = $1::uuid;

/* comments.insert */
insert into "comments" ("id", "task_id", "author_id", "author_name", "body", "mentions", "version", "created_at", "edited_at")
values ($1::uuid, $2::uuid, $3::uuid, default, $4::text, $5::uuid[], default, default, default);

/* comments.lock */
select "id"
from "comments"
where "comments"."id" = $1::uuid
for update;

/* comments.select_facts */
select "author_id", "body", "version"
from "comments"
where "comments"."id" = $1::uuid;

/* comments.select_task_id */
select "task_id"
from "comments"
where "comments"."id" = $1::uuid;

/* comments.update */
update "comments"
set "body" = $1::text, "mentions" = $2::uuid[], "version" = "comments"."version" + 1, "edited_at" = greatest(clock_timestamp(), "comments"."created_at")
where "comments"."id" = $3::uuid;

/* end_access.delete_api_tokens */
delete from "api_tokens"
where "api_tokens"."user_id" = $1::uuid;

/* end_access.delete_exports */
delete from "exports"
where "exports"."requested_by" = $1::uuid;

/* end_access.delete_identities */
delete from "identities"
where "identities"."user_id" = $1::uuid;

/* end_access.delete_one_time_tokens */
delete from "one_time_tokens"
where "one_time_tokens"."user_id" = $1::uuid;

/* end_access.delete_second_factor */
delete from "second_factors"
where "second_factors"."user_id" = $1::uuid
returning "user_id";

/* end_access.delete_sessions */
delete from "sessions"
where ("sessions"."user_id" = $1::uuid and "sessions"."id" is distinct
from $2::uuid);

/* end_access.disable_webhooks */
update "webhooks"
set "is_enabled" = $1, "version" = "webhooks"."version" + 1, "updated_at" = greatest(clock_timestamp(), "webhooks"."created_at")
where ("webhooks"."owner_id" = $2::uuid and "webhooks"."is_enabled");

/* end_access.discard_password */
update "users"
set "password_hash" = $1
where "users"."id" = $2::uuid;

/* end_access.revoke_feeds */
update "feeds"
set "revoked_at" = now()
where ("feeds"."owner_id" = $1::uuid and "feeds"."revoked_at" is null);

/* event_readers.order_by_ordinals */
update "event_readers" "reader"
set "ordinal" = least("reader"."ordinal", (
        select min("event"."ordinal") - 1
from events event
       
where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal")
          and "event"."changed_in" >= pg_snapshot_xmax(pg_current_snapshot())))
where "reader"."changed_in" > pg_snapshot_xmax(pg_current_snapshot());

/* event_readers.restamp */
update "event_readers" "reader"
set "changed_in" = $1
where "reader"."changed_in" > pg_snapshot_xmax(pg_current_snapshot());

/* events.forget_values */
update "events"
set "before" = $1, "after" = $2
where ("events"."task_id" = $3::uuid and "events"."resource_id" = $4::uuid);

/* exports.cancel */
update "exports"
set "status" = $1, "lease_id" = $2, "leased_until" = $3, "version" = "exports"."version" + 1, "updated_at" = greatest(clock_timestamp(), "exports"."created_at"), "finished_at" = clock_timestamp()
where "exports"."id" = $4::uuid;

/* exports.count */
select count(*)::int as "exports"
from "exports"
where "exports"."requested_by" = $1::uuid;

/* exports.delete */
delete from "exports"
where "exports"."id" = $1::uuid;

/* exports.insert */
insert into "exports" ("id", "requested_by", "user_id", "project_id", "status", "done", "total", "attempts", "renewals", "lease_id", "leased_until", "failure", "writing_key", "storage_key", "size", "sha256", "version", "side_changes", "created_at", "updated_at", "finished_at", "expires_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::uuid, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default);

/* exports.lock */
select "id"
from "exports"
where "exports"."id" = $1::uuid
for update;

/* exports.select_facts */
select "requested_by", "status", "storage_key", "version"
from "exports"
where "exports"."id" = $1::uuid;

/* feeds.count_owned */
select (select count(*)::int
from feeds feed
where "owner_id" = $1::uuid and "revoked_at" is null)
from "users"
where "users"."id" = $2::uuid;

/* feeds.insert */
insert into "feeds" ("id", "owner_id", "name", "filter", "kind", "alarms", "color", "hash", "version", "created_at", "updated_at", "revoked_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::bool, $7::text, $8::bytea, default, default, default, default);

/* feeds.lock */
select "id"
from "feeds"
where "feeds"."id" = $1::uuid
for no key update;

/* feeds.revoke */
update "feeds"
set "revoked_at" = now()
where "feeds"."id" = $1::uuid;

/* feeds.rotate */
update "feeds"
set "hash" = $1::bytea, "version" = "feeds"."version" + 1, "updated_at" = greatest(clock_timestamp(), "feeds"."created_at")
where "feeds"."id" = $2::uuid;

/* feeds.select_facts */
select "id", "owner_id", "name", "alarms", "color", "version"
from "feeds"
where ("feeds"."id" = $1::uuid and "feeds"."revoked_at" is null);

/* feeds.update */
update "feeds"
set "name" = $1::text, "alarms" = $2::bool, "color" = $3::text, "version" = "feeds"."version" + 1, "updated_at" = greatest(clock_timestamp(), "feeds"."created_at")
where "feeds"."id" = $4::uuid;

/* file_deletions.delete */
delete from "file_deletions"
where "file_deletions"."storage_key" = any($1::text[]);

/* idempotency_keys.store */
insert into "idempotency_keys" ("principal_id", "operation", "key", "fingerprint", "resource_id", "body", "created_at")
values ($1::uuid, $2::text, $3::text, $4::text, $5::uuid, $6::text, default)
on conflict ("principal_id","operation","key") do update
set "fingerprint" = $7::text, "resource_id" = $8::uuid, "body" = $9::text, "created_at" = excluded.created_at;

/* identities.delete */
delete from "identities"
where "identities"."id" = $1::uuid;

/* identities.delete_of_user */
delete from "identities"
where "identities"."user_id" = $1::uuid
returning "issuer";

/* identities.delete_since */
delete from "identities"
where ("identities"."user_id" = $1::uuid and "identities"."created_at" >= $2::timestamptz - interval '15 minutes' and "identities"."created_at" > (select "users"."created_at"
from users
where "users"."id" = $3::uuid))
returning "issuer";

/* identities.insert */
insert into "identities" ("id", "user_id", "issuer", "subject", "email", "created_at", "last_used_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, default, default);

/* identities.select */
select "identities"."id", "identities"."user_id"
from "identities"
inner join "users" on ("users"."id" = "identities"."user_id" and "users"."deleted_at" is null)
where ("identities"."issuer" = $1::text and "identities"."subject" = $2::text);

/* identities.select_facts */
select "id", "user_id", "issuer"
from "identities"
where "identities"."id" = $1::uuid;

/* identities.select_of_session */
select "identities"."issuer"
from "provider_sessions"
inner join "identities" on "identities"."id" = "provider_sessions"."identity_id"
where "provider_sessions"."session_id" = $1::uuid;

/* identities.select_of_user */
select "id", "issuer", "subject"
from "identities"
where "identities"."user_id" = $1::uuid;

/* identities.select_users_of_login */
select distinct "identities"."user_id"
from "identities"
left join "provider_sessions" on "provider_sessions"."identity_id" = "identities"."id"
where ("identities"."issuer" = $1::text and ($2::text is null or "identities"."subject" = $3::text) and (($4::text is null or "provider_sessions"."sid" = $5::text or ("provider_sessions"."sid" is null and $6::text is not null)) or exists (
          select
from one_time_tokens
         
where "one_time_tokens"."identity_id" = "identities"."id" and ($7::text is null or "one_time_tokens"."sid" = $8::text or ("one_time_tokens"."sid" is null and $9::text is not null)))));

/* identities.use */
update "identities"
set "email" = $1::text, "last_used_at" = now()
where "identities"."id" = $2::uuid;

/* import_records.select */
select "import_records"."type", "import_records"."source_id", "import_records"."resource_id", "import_records"."is_made", "import_records"."import_id", "import_records"."project_id", "import_records"."fields"
from "import_records"
inner join (select distinct *
from unnest($1::text[], $2::text[]) wanted (type, source_id)) wanted on "import_records"."user_id" = $3::uuid and "import_records"."source" = $4::text
          and "import_records"."type" = wanted.type and "import_records"."source_id" = wanted.source_id;

/* import_rows.delete */
delete from "import_rows"
where "import_rows"."import_id" = $1::uuid;

/* imports.count */
select count(*)::int as "imports"
from "imports"
where ("imports"."user_id" = $1::uuid and "imports"."deleted_at" is null);

/* imports.finish_reading */
update "imports"
set "status" = $1, "format" = $2::text, "csv" = $3::text::jsonb, "preview" = $4::text::jsonb, "done" = $5::int, "total" = $6::int, "lease_id" = $7, "leased_until" = $8, "version" = "imports"."version" + 1, "updated_at" = greatest(clock_timestamp(), "imports"."created_at")
where "imports"."id" = $9::uuid;

/* imports.insert */
insert into "imports" ("id", "user_id", "status", "failure", "file_name", "storage_key", "size", "sha256", "format", "csv", "project_id", "existing", "users", "authors", "preview", "result", "done", "total", "attempts", "renewals", "lease_id", "leased_until", "version", "side_changes", "created_at", "updated_at", "finished_at", "file_expires_at", "deleted_at")
values ($1::uuid, $2::uuid, default, default, $3::text, $4::text, $5::bigint, $6::text, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, default, now() + make_interval(days => $7::int), default);

/* imports.lock */
select "id"
from "imports"
where "imports"."id" = $1::uuid
for update;

/* imports.select_facts */
select "user_id", "status", "failure", "format", "csv", "project_id", "existing", "users", "storage_key", ("preview" is not null) as "has_preview", ("result" is not null) as "has_run", "version"
from "imports"
where ("imports"."id" = $1::uuid and "imports"."deleted_at" is null);

/* imports.select_taken */
select "imports"."user_id", "imports"."status", "imports"."failure", "imports"."format", "imports"."csv", "imports"."project_id", "imports"."existing", "imports"."users", "imports"."storage_key", ("imports"."preview" is not null) as "has_preview", ("imports"."result" is not null) as "has_run", "imports"."version", "imports"."authors", "imports"."attempts", "imports"."file_name", "imports"."size", "imports"."sha256", "imports"."created_at", "users"."time_zone", "users"."task_quota"
from "imports"
inner join "users" on "users"."id" = "imports"."user_id"
where ("imports"."id" = $1::uuid and "imports"."lease_id" = $2::uuid);

/* imports.set_authors */
update "imports"
set "authors" = $1::text::jsonb
where "imports"."id" = $2::uuid;

/* imports.start */
update "imports"
set "status" = $1::text, "failure" = $2::text, "preview" = case when $3::text <> 'reading' then "imports"."preview" end, "done" = $4, "total" = $5, "attempts" = $6, "lease_id" = $7, "leased_until" = $8, "version" = "imports"."version" + 1, "updated_at" = greatest(clock_timestamp(), "imports"."created_at"), "finished_at" = $9
where "imports"."id" = $10::uuid;

/* imports.update */
update "imports"
set "format" = $1::text, "csv" = $2::text::jsonb, "project_id" = $3::uuid, "existing" = $4::text, "users" = $5::text::jsonb, "version" = "imports"."version" + 1, "updated_at" = greatest(clock_timestamp(), "imports"."created_at")
where "imports"."id" = $6::uuid;

/* installation.claim */
insert into "installation" ("singleton")
values ($1)
on conflict do nothing
returning "singleton";

/* invitation_mails.insert */
insert into "invitation_mails" ("id", "mailbox", "invited_by", "created_at")
values ($1::uuid, $2::text, $3::uuid, default);

/* invitations.delete */
delete from "invitations"
where ("invitations"."id" = $1::uuid and "invitations"."project_id" = $2::uuid)
returning "id";

/* invitations.lock_sender */
select "id"
from "users"
where "users"."id" = $1::uuid
for no key update;

/* invitations.select_project */
select "project_id"
from "invitations"
where "invitations"."hash" = $1::bytea;

/* invitations.select_valid */
select "invitations"."id", "invitations"."project_id", "invitations"."role", "project_members"."role"
from "invitations"
inner join "projects" on "projects"."id" = "invitations"."project_id"
left join "project_members" on ("project_members"."project_id" = "invitations"."project_id" and "project_members"."user_id" = $1::uuid)
where ("invitations"."hash" = $2::bytea and ("invitations"."expires_at" > now() and ("projects"."deleted_at" is null and (exists (
  select
from memberships membership
 
where "membership"."user_id" = "invitations"."invited_by" and "membership"."project_id" = "projects"."id"
    and "membership"."role" in ('manager') offset 0) or exists (
      select
from users
where "users"."id" = "invitations"."invited_by" and "users"."role" = 'admin' and "users"."deleted_at" is null)))));

/* invitations.upsert */
insert into "invitations" ("id", "project_id", "email", "role", "hash", "invited_by", "created_at", "expires_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, $5::bytea, $6::uuid, now(), now() + interval '7 days')
on conflict ("project_id","email") do update
set "id" = $7::uuid, "role" = $8::text, "hash" = $9::bytea, "invited_by" = $10::uuid, "created_at" = now(), "expires_at" = now() + interval '7 days';

/* leases.delete */
delete from "leases"
where ("leases"."name" = $1::text and "leases"."holder" = $2::uuid);

/* leases.insert */
insert into "leases" ("name", "holder", "expires_at")
values ($1::text, $2::uuid, now() + $3::int * interval '1 millisecond')
on conflict ("name") do update
set "holder" = case when "leases"."expires_at" <= now() then excluded.holder else "leases"."holder" end, "expires_at" = excluded.expires_at
where "leases"."expires_at" <= now() or "leases"."expires_at" > excluded.expires_at
returning "holder";

/* leases.renew */
update "leases"
set "expires_at" = now() + $1::int * interval '1 millisecond'
where ("leases"."name" = $2::text and "leases"."holder" = $3::uuid)
returning "name";

/* logout_tokens.insert */
insert into "logout_tokens" ("issuer", "token_id", "expires_at", "subject_hash", "sid_hash", "received_at", "is_used")
values ($1::text, $2::text, to_timestamp($3::bigint), $4::bytea, $5::bytea, default, $6)
on conflict ("issuer","token_id") do update
set "token_id" = $7::text
returning "is_used";

/* logout_tokens.use */
update "logout_tokens"
set "is_used" = $1
where ("logout_tokens"."issuer" = $2::text and "logout_tokens"."token_id" = $3::text);

/* memberships.select_unmanaged */
select "id"
from "projects"
where "projects"."id" = any($1::uuid[]) and "projects"."deleted_at" is null and not exists (
        select
from memberships
where "memberships"."project_id" = "projects"."id" and "memberships"."role" = 'manager')
limit $2;

/* notification_settings.choose */
insert into "notification_settings" ("user_id", "mail_digest", "mail_reminders", "reminders_mailed_at", "digest_due_at", "digested_until", "version")
values ($1::uuid, $2::text, $3::bool, default, $4::timestamptz, default, $5::int)
on conflict ("user_id") do update
set "mail_digest" = $6::text, "mail_reminders" = $7::bool, "digest_due_at" = case when $8::bool then $9::timestamptz else "notification_settings"."digest_due_at" end, "digested_until" = case when $10::bool then now() else "notification_settings"."digested_until" end, "version" = $11::int;

/* notification_settings.reschedule */
update "notification_settings"
set "digest_due_at" = $1::timestamptz
where ("notification_settings"."user_id" = $2::uuid and "notification_settings"."mail_digest" = $3);

/* notification_settings.select_facts */
select "notification_settings"."mail_digest", "notification_settings"."mail_reminders", "notification_settings"."version", "users"."time_zone"
from "users"
left join "notification_settings" on "notification_settings"."user_id" = "users"."id"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null and "users"."is_disabled" = $2);

/* notifications.insert_begin */
insert into "event_readers" ("name", "changed_in", "ordinal")
values ($1, pg_snapshot_xmin(pg_current_snapshot()), 0)
on conflict do nothing;

/* notifications.lock */
select "id"
from "notifications"
where "notifications"."id" = $1::uuid
for no key update;

/* notifications.set_read */
update "notifications"
set "read_at" = case when $1::bool then now() end
where "notifications"."id" = $2::uuid;

/* oidc_codes.end_login */
delete from "oidc_codes"
where (($1::bytea is null or "oidc_codes"."subject_hash" = $2::bytea) and ($3::bytea is null or "oidc_codes"."sid_hash" = $4::bytea
            or ("oidc_codes"."sid_hash" is null and $5::bytea is not null)));

/* oidc_codes.insert */
insert into "oidc_codes" ("hash", "sealed", "subject_hash", "sid_hash", "expires_at")
values ($1::bytea, $2::bytea, $3::bytea, $4::bytea, to_timestamp($5::bigint / 1000.0) + make_interval(secs => $6::int));

/* oidc_codes.select */
select "sealed"
from "oidc_codes"
where ("oidc_codes"."hash" = $1::bytea and ("oidc_codes"."expires_at" between now() and now() + make_interval(secs => $2::int) and not exists (
  select
from logout_tokens
 
where ("logout_tokens"."subject_hash" = "oidc_codes"."subject_hash"
      or ("logout_tokens"."subject_hash" is null and "logout_tokens"."sid_hash" = "oidc_codes"."sid_hash"))
    and ("logout_tokens"."sid_hash" is null or "oidc_codes"."sid_hash" is null or "logout_tokens"."sid_hash" = "oidc_codes"."sid_hash")
    and "logout_tokens"."received_at" >= "oidc_codes"."expires_at" - make_interval(secs => $3::int))));

/* oidc_codes.take */
delete from "oidc_codes"
where "oidc_codes"."hash" = $1::bytea
returning "sealed", ("oidc_codes"."expires_at" between now() and now() + make_interval(secs => $2::int) and not exists (
  select
from logout_tokens
 
where ("logout_tokens"."subject_hash" = "oidc_codes"."subject_hash"
      or ("logout_tokens"."subject_hash" is null and "logout_tokens"."sid_hash" = "oidc_codes"."sid_hash"))
    and ("logout_tokens"."sid_hash" is null or "oidc_codes"."sid_hash" is null or "logout_tokens"."sid_hash" = "oidc_codes"."sid_hash")
    and "logout_tokens"."received_at" >= "oidc_codes"."expires_at" - make_interval(secs => $3::int)));

/* one_time_tokens.count */
select count(*)::int
from "one_time_tokens"
where ("one_time_tokens"."user_id" = $1::uuid and "one_time_tokens"."purpose" = $2::text and "one_time_tokens"."created_at" > now() - make_interval(secs => $3::int));

/* one_time_tokens.delete_challenges */
delete from "one_time_tokens"
where ("one_time_tokens"."user_id" = $1::uuid and "one_time_tokens"."purpose" = $2);

/* one_time_tokens.end_login */
delete from "one_time_tokens"
where "one_time_tokens"."identity_id" in (
        select "identities"."id"
from identities
       
where "identities"."user_id" = $1::uuid and "identities"."issuer" = $2::text
          and ($3::text is null or "identities"."subject" = $4::text))
        and ($5::text is null or "one_time_tokens"."sid" = $6::text or ("one_time_tokens"."sid" is null and $7::text is not null));

/* one_time_tokens.insert */
insert into "one_time_tokens" ("hash", "purpose", "user_id", "email", "identity_id", "sid", "claims", "created_at", "expires_at")
values ($1::bytea, $2::text, $3::uuid, $4::text, $5::uuid, $6::text, $7::text, default, now() + make_interval(secs => $8::int));

/* one_time_tokens.select */
select "user_id"
from "one_time_tokens"
where ("one_time_tokens"."hash" = $1::bytea and "one_time_tokens"."purpose" = $2::text and "one_time_tokens"."expires_at" > now());

/* one_time_tokens.select_reserved */
select "user_id"
from "one_time_tokens"
where ("one_time_tokens"."email" = $1::text and "one_time_tokens"."user_id" <> $2::uuid and "one_time_tokens"."expires_at" > now());

/* one_time_tokens.take */
delete from "one_time_tokens"
where ("one_time_tokens"."hash" = $1::bytea and "one_time_tokens"."purpose" = $2::text and "one_time_tokens"."expires_at" > now())
returning "email", "identity_id", "sid", "claims", "created_at";

/* one_time_tokens.void */
delete from "one_time_tokens"
where ("one_time_tokens"."user_id" = $1::uuid and "one_time_tokens"."purpose" <> $2);

/* one_time_tokens.void_undoing */
delete from "one_time_tokens"
where ("one_time_tokens"."user_id" = $1::uuid and "one_time_tokens"."purpose" = $2 and "one_time_tokens"."created_at" >= $3::timestamptz);

/* project_members.delete */
delete from "project_members"
where ("project_members"."project_id" = $1::uuid and "project_members"."user_id" = $2::uuid);

/* project_members.select_facts */
select "project_members"."role", "project_members"."version", "memberships"."role"
from "users"
left join "project_members" on ("project_members"."user_id" = "users"."id" and "project_members"."project_id" = $1::uuid)
left join "memberships" on ("memberships"."user_id" = "users"."id" and "memberships"."project_id" = $2::uuid)
where ("users"."id" = $3::uuid and "users"."deleted_at" is null);

/* project_members.upsert */
insert into "project_members" ("project_id", "user_id", "role", "version", "created_at")
values ($1::uuid, $2::uuid, $3::text, default, default)
on conflict ("project_id","user_id") do update
set "role" = $4::text, "version" = "project_members"."version" + 1;

/* project_teams.delete */
delete from "project_teams"
where ("project_teams"."project_id" = $1::uuid and "project_teams"."team_id" = $2::uuid);

/* project_teams.lock_people */
select "id"
from "users"
where "users"."id" in (select user_id
from team_members
where team_id = $1::uuid)
order by "users"."id"
for key share;

/* project_teams.select_facts */
select "role", "version"
from "project_teams"
where ("project_teams"."project_id" = $1::uuid and "project_teams"."team_id" = $2::uuid);

/* project_teams.upsert */
insert into "project_teams" ("project_id", "team_id", "role", "version", "created_at")
values ($1::uuid, $2::uuid, $3::text, default, default)
on conflict ("project_id","team_id") do update
set "role" = $4::text, "version" = "project_teams"."version" + 1;

/* projects.archive */
update "projects"
set "archived_at" = case when $1::bool then now() end, "version" = "projects"."version" + 1, "updated_at" = greatest(clock_timestamp(), "projects"."created_at")
where "projects"."id" = $2::uuid;

/* projects.finish_redelivery */
update "projects"
set "is_redelivering" = $1
where ("projects"."id" = $2::uuid and "projects"."deleted_at" is not distinct
from $3::timestamptz and "projects"."visible_in" = $4::xid8);

/* projects.insert */
insert into "projects" ("id", "name", "name_folded", "description", "color", "archived_at", "metadata", "external_source", "external_id", "version", "created_at", "updated_at", "deleted_at", "purged_at", "filling_import_id", "visible_in", "is_redelivering")
values ($1::uuid, $2::text, default, $3::text, $4::text, default, $5::jsonb, $6::text, $7::text, default, default, default, default, default, default, default, default);

/* projects.lock_many */
select "id"
from "projects"
where "projects"."id" = any((select $1::uuid[])::uuid[])
order by "projects"."id"
for update;

/* projects.lock_of_user */
select "id"
from "projects"
where "projects"."id" in (select project_id
from project_grants
where user_id = $1::uuid)
order by "projects"."id"
for update;

/* projects.lock_to_change */
select "id"
from "projects"
where "projects"."id" = $1::uuid
for no key update;

/* projects.lock_to_close */
select "id"
from "projects"
where "projects"."id" = $1::uuid
for update;

/* projects.lock_to_use */
select "id"
from "projects"
where "projects"."id" = $1::uuid
for key share;

/* projects.purge_abandoned */
update "projects"
set "purged_at" = now()
where "projects"."id" = any((select $1::uuid[])::uuid[]) and "projects"."deleted_at" is not null and "projects"."purged_at" is null and not exists (
  select
from project_grants other join users on "users"."id" = other.user_id and "users"."deleted_at" is null
 
where other.project_id = "projects"."id");

/* projects.select_facts */
select "projects"."id", "projects"."name", "projects"."description", "projects"."color", "projects"."metadata", "projects"."external_source", "projects"."external_id", "projects"."archived_at", "projects"."version", "memberships"."role"
from "projects"
left join "memberships" on ("memberships"."project_id" = "projects"."id" and "memberships"."user_id" = $1::uuid)
where ("projects"."id" = $2::uuid and "projects"."deleted_at" is null);

/* projects.select_redelivering */
select "id", "deleted_at", "visible_in"
from "projects"
where "projects"."is_redelivering" = $1;

/* projects.trash */
update "projects"
set "version" = "projects"."version" + 1, "updated_at" = greatest(clock_timestamp(), "projects"."created_at"), "deleted_at" = now(), "is_redelivering" = (
  select count(*) > 100
from (
    select
from tasks
where project_id = projects.id and deleted_at is null
limit 100 + 1
  ) few)
where "projects"."id" = $1::uuid;

/* projects.trash_abandoned */
update "projects"
set "deleted_at" = now(), "is_redelivering" = (
  select count(*) > 100
from (
    select
from tasks
where project_id = projects.id and deleted_at is null
limit 100 + 1
  ) few)
where "projects"."id" = any((select $1::uuid[])::uuid[]) and "projects"."deleted_at" is null and not exists (
  select
from project_grants other join users on "users"."id" = other.user_id and "users"."deleted_at" is null
 
where other.project_id = "projects"."id")
returning "id";

/* projects.update */
update "projects"
set "name" = $1::text, "description" = $2::text, "color" = $3::text, "metadata" = $4::jsonb, "external_source" = $5::text, "external_id" = $6::text, "version" = "projects"."version" + 1, "updated_at" = greatest(clock_timestamp(), "projects"."created_at")
where "projects"."id" = $7::uuid;

/* provider_sessions.end */
delete from "sessions"
where "sessions"."id" in (select "provider_sessions"."session_id"
from provider_sessions
where "provider_sessions"."identity_id" = $1::uuid);

/* provider_sessions.end_login */
delete from "sessions"
where "sessions"."id" in (
        select "provider_sessions"."session_id"
from provider_sessions
          join identities on "identities"."id" = "provider_sessions"."identity_id"
       
where "identities"."user_id" = $1::uuid and "identities"."issuer" = $2::text
          and ($3::text is null or "identities"."subject" = $4::text)
          and ($5::text is null or "provider_sessions"."sid" = $6::text or ("provider_sessions"."sid" is null and $7::text is not null)))
returning "id";

/* provider_sessions.insert */
insert into "provider_sessions" ("session_id", "identity_id", "sid")
values ($1::uuid, $2::uuid, $3::text);

/* purge.select_projects */
select "id"
from "projects"
where "projects"."purged_at" is not null;

/* purge.select_tags */
select "id"
from "tags"
where "tags"."deleted_at" is not null;

/* purge.select_users */
select "id"
from "users"
where "users"."deleted_at" is not null;

/* purge.select_webhooks */
select "id"
from "webhooks"
where "webhooks"."deleted_at" is not null;

/* recovery_codes.use */
delete from "recovery_codes"
where ("recovery_codes"."user_id" = $1::uuid and "recovery_codes"."hash" = $2::bytea)
returning "user_id";

/* refresh_tokens.insert */
insert into "refresh_tokens" ("hash", "session_id", "created_at", "expires_at", "spent_at")
values ($1::bytea, $2::uuid, default, least(now() + interval '7 days', (select "sessions"."expires_at"
from sessions
where "sessions"."id" = $3::uuid)), default);

/* refresh_tokens.spend */
update "refresh_tokens"
set "spent_at" = now()
where "refresh_tokens"."hash" = $1::bytea;

/* reminders.delete */
delete from "reminders"
where "reminders"."id" = $1::uuid;

/* reminders.insert */
insert into "reminders" ("id", "task_id", "user_id", "at", "relative_to", "offset_minutes", "time_of_day", "snoozed_until", "remind_at", "fires_at", "fired_at", "late_seconds", "is_mail_due", "version", "side_changes", "created_at", "updated_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::timestamptz, $5::text, $6::int, $7::text, $8::timestamptz, $9::timestamptz, case when $10::timestamptz > now() or (coalesce($11::timestamptz, $12::timestamptz) > now() - interval '1 minute') then $13::timestamptz end, default, default, default, default, default, default, default);

/* reminders.lock */
select "id"
from "reminders"
where "reminders"."id" = $1::uuid
for update;

/* reminders.select_bases */
select "reminders"."id", "reminders"."task_id", "reminders"."at", "reminders"."relative_to", "reminders"."offset_minutes", "reminders"."time_of_day", "reminders"."snoozed_until", "reminders"."remind_at", "reminders"."fires_at", "reminders"."fired_at", "reminders"."version", "tasks"."start_at", "tasks"."start_on", "tasks"."due_at", "tasks"."due_on", "users"."time_zone"
from "reminders"
inner join "tasks" on "tasks"."id" = "reminders"."task_id"
inner join "users" on "users"."id" = "reminders"."user_id"
where "reminders"."id" = any((select $1::uuid[])::uuid[]);

/* reminders.select_new */
select "tasks"."start_at", "tasks"."start_on", "tasks"."due_at", "tasks"."due_on", "users"."time_zone", (select count(*)::int
from reminders
where "reminders"."user_id" = $1::uuid and "reminders"."task_id" = $2::uuid) as "of_task", 
  (select count(*)::int
from reminders counted join tasks reminded on reminded.id = counted.task_id
 
where counted.user_id = $3::uuid and reminded.status in ('todo', 'in_progress')) as "open_reminders", 
  (select count(*)::int
from reminders counted
where counted.user_id = $4::uuid) as "reminders"
from "tasks"
inner join "users" on "users"."id" = $5::uuid
where "tasks"."id" = $6::uuid;

/* reminders.select_place */
select "task_id", "user_id"
from "reminders"
where "reminders"."id" = $1::uuid;

/* reminders.update */
update "reminders"
set "at" = $1::timestamptz, "relative_to" = $2::text, "offset_minutes" = $3::int, "time_of_day" = $4::text, "snoozed_until" = $5::timestamptz, "remind_at" = $6::timestamptz, "fires_at" = case when $7::timestamptz > now() or (coalesce($8::timestamptz, $9::timestamptz) > now() - interval '1 minute') then $10::timestamptz end, "version" = "reminders"."version" + 1, "updated_at" = greatest(clock_timestamp(), "reminders"."created_at")
where "reminders"."id" = $11::uuid;

/* retention.accept_set_back */
update "retention"
set "unconfirmed" = greatest("retention"."unconfirmed", '0'), "set_back_at" = $1
where "retention"."seen_at" - "retention"."set_back_at" >= $2::int * interval '1 millisecond';

/* retention.confirm */
update "retention"
set "seen_at" = now(), "unconfirmed" = $1, "skipped_from" = $2, "set_back_at" = $3;

/* retention.look */
insert into "retention" ("singleton", "seen_at", "unconfirmed", "skipped_from", "set_back_at")
values ($1, now(), $2, default, default)
on conflict ("singleton") do update
set "seen_at" = now(), "unconfirmed" = case when ("retention"."unconfirmed" + case when now() - "retention"."seen_at" < -interval '1 minute' or now() - "retention"."seen_at" > interval '3 days' then now() - "retention"."seen_at" else '0' end) between -interval '3 days' and interval '3 days' then '0' else ("retention"."unconfirmed" + case when now() - "retention"."seen_at" < -interval '1 minute' or now() - "retention"."seen_at" > interval '3 days' then now() - "retention"."seen_at" else '0' end) end, "skipped_from" = case when ("retention"."unconfirmed" + case when now() - "retention"."seen_at" < -interval '1 minute' or now() - "retention"."seen_at" > interval '3 days' then now() - "retention"."seen_at" else '0' end) > interval '3 days'
          then coalesce("retention"."skipped_from", "retention"."seen_at" - "retention"."unconfirmed") end, "set_back_at" = case when now() - "retention"."seen_at" < -interval '1 minute' then now() when not now() - "retention"."seen_at" > interval '3 days' then "retention"."set_back_at" end
returning floor(extract(epoch
from greatest("unconfirmed", '0')))::float8;

/* retention.select_set_back */
select "set_back_at"
from "retention"
where "retention"."seen_at" - "retention"."set_back_at" >= $1::int * interval '1 millisecond';

/* second_factors.confirm */
update "second_factors"
set "confirmed_at" = now(), "last_step" = $1::bigint
where "second_factors"."user_id" = $2::uuid;

/* second_factors.insert */
insert into "second_factors" ("user_id", "secret", "created_at", "confirmed_at", "last_step")
values ($1::uuid, $2::bytea, default, default, default)
on conflict ("user_id") do update
set "secret" = $3::bytea, "created_at" = now();

/* second_factors.select */
select "confirmed_at"
from "second_factors"
where "second_factors"."user_id" = $1::uuid;

/* second_factors.update_seal */
update "second_factors"
set "secret" = $1::bytea
where ("second_factors"."user_id" = $2::uuid and "second_factors"."secret" = $3::bytea);

/* second_factors.use_step */
update "second_factors"
set "last_step" = $1::bigint
where ("second_factors"."user_id" = $2::uuid and "second_factors"."last_step" < $3::bigint)
returning "user_id";

/* sections.delete */
delete from "sections"
where "sections"."id" = $1::uuid;

/* sections.find_live_task */
select "id"
from "tasks"
where (("tasks"."project_id" = $1::uuid and "tasks"."section_id" = $2::uuid) and "tasks"."deleted_at" is null)
limit $3;

/* sections.insert */
insert into "sections" ("id", "project_id", "name", "position", "version", "created_at", "updated_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, default, default, default);

/* sections.lock_to_change */
select "id"
from "sections"
where ("sections"."id" = $1::uuid and "sections"."project_id" = $2::uuid)
for no key update;

/* sections.lock_to_delete */
select "id"
from "sections"
where ("sections"."id" = $1::uuid and "sections"."project_id" = $2::uuid)
for update;

/* sections.select_facts */
select "id", "name", "position", "version"
from "sections"
where ("sections"."id" = $1::uuid and "sections"."project_id" = $2::uuid);

/* sections.select_tasks */
select "id"
from "tasks"
where ("tasks"."project_id" = $1::uuid and "tasks"."section_id" = $2::uuid)
limit $3;

/* sections.spread */
update "sections"
set "position" = moved.position, "version" = "sections"."version" + 1, "updated_at" = greatest(clock_timestamp(), "sections"."created_at")
from unnest($1::uuid[], $2::text[]) as moved (id, position)
where "sections"."id" = moved.id;

/* sections.take_tasks_out */
update "tasks"
set "section_id" = $1, "version" = "tasks"."version" + 1, "updated_at" = greatest(clock_timestamp(), "tasks"."created_at")
where ("tasks"."id" = any((select $2::uuid[])::uuid[]) and ("tasks"."project_id" = $3::uuid and "tasks"."section_id" = $4::uuid))
returning "id", "project_id", "owner_id", "assignee_id";

/* sections.update */
update "sections"
set "name" = $1::text, "position" = $2::text, "version" = "sections"."version" + 1, "updated_at" = greatest(clock_timestamp(), "sections"."created_at")
where "sections"."id" = $3::uuid;

/* sessions.continue */
update "sessions"
set "last_used_at" = now(), "user_agent" = $1::text, "address" = $2::text
where "sessions"."id" = $3::uuid;

/* sessions.delete */
delete from "sessions"
where "sessions"."id" = $1::uuid;

/* sessions.delete_reused */
delete from "sessions"
where "sessions"."id" = $1::uuid;

/* sessions.insert */
insert into "sessions" ("id", "user_id", "created_at", "last_used_at", "authenticated_at", "expires_at", "user_agent", "address")
values ($1::uuid, $2::uuid, default, default, least(now(), to_timestamp($3::bigint)), now() + least(interval '30 days', make_interval(hours => $4::int)), $5::text, $6::text);

/* sessions.lock */
select "id"
from "sessions"
where "sessions"."id" = $1::uuid
for update;

/* sessions.lock_by_token */
select "id"
from "sessions"
where "sessions"."id" = (select "session_id"
from "refresh_tokens"
where "refresh_tokens"."hash" = $1::bytea)
for update;

/* sessions.renew_authentication */
update "sessions"
set "authenticated_at" = least(now(), to_timestamp($1::bigint))
where "sessions"."id" = $2::uuid;

/* sessions.select_facts */
select "user_id"
from "sessions"
where ("sessions"."id" = $1::uuid and "sessions"."expires_at" > now());

/* tags.hide_of_user */
update "tags"
set "deleted_at" = now()
where ("tags"."owner_id" = $1::uuid and "tags"."project_id" is null and "tags"."deleted_at" is null);

/* tags.insert */
insert into "tags" ("id", "name", "canonical_name", "name_folded", "color", "owner_id", "project_id", "created_at", "deleted_at")
values ($1::uuid, $2::text, $3::text, default, $4::text, $5::uuid, $6::uuid, default, default);

/* tags.lock */
select "id"
from "tags"
where "tags"."id" = $1::uuid
for update;

/* tags.lock_project */
select "id"
from "projects"
where "projects"."id" = (select "project_id"
from "tags"
where "tags"."id" = $1::uuid)
for key share;

/* tags.mark_deleted */
update "tags"
set "deleted_at" = now()
where "tags"."id" = $1::uuid;

/* tags.select_facts */
select "tags"."id", "tags"."owner_id", "tags"."project_id", "projects"."archived_at", "memberships"."role", exists (
  select
from tag_counts counted
 
where "counted"."tag_id" = "tags"."id" and case when "counted"."user_id" is null then exists (
  select
from memberships membership
 
where "membership"."user_id" = $1::uuid and "membership"."project_id" = "counted"."project_id"
    and true offset 0) else "counted"."user_id" = $2::uuid and ("counted"."project_id" is null or (not exists (
  select
from memberships membership
 
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "counted"."project_id"
    and true offset 0) and exists (select
from projects
where "projects"."id" = "counted"."project_id" and "projects"."deleted_at" is null offset 0))) end)
from "tags"
left join "projects" on "projects"."id" = "tags"."project_id"
left join "memberships" on ("memberships"."project_id" = "tags"."project_id" and "memberships"."user_id" = $4::uuid)
where ("tags"."id" = $5::uuid and "tags"."deleted_at" is null);

/* task_followers.follow */
insert into "task_followers" ("task_id", "user_id", "has_stopped", "created_at")
values ($1::uuid, $2::uuid, default, default)
on conflict do nothing;

/* task_followers.select_state */
select "has_stopped"
from "task_followers"
where ("task_followers"."task_id" = $1::uuid and "task_followers"."user_id" = $2::uuid);

/* task_followers.set */
insert into "task_followers" ("task_id", "user_id", "has_stopped", "created_at")
values ($1::uuid, $2::uuid, $3::bool, default)
on conflict ("task_id","user_id") do update
set "has_stopped" = excluded.has_stopped, "created_at" = excluded.created_at
where "task_followers"."has_stopped" <> excluded.has_stopped;

/* task_locks.lock_sections */
select "id", "project_id"
from "sections"
where "sections"."id" = any(array(select unnest((select $1::uuid[])) union select section_id
from tasks
where id = any((select $2::uuid[])::uuid[])))
order by "sections"."id"
for key share;

/* task_locks.lock_users */
select "id", "time_zone", "deleted_at"
from "users"
where "users"."id" = any(array(
            with recursive tree as (
              select id, owner_id, assignee_id
from tasks
             
where id = any((select $1::uuid[])::uuid[]) and (series_id is not null or $2::bool)
              union all select task.id, task.owner_id, task.assignee_id
from tree cross join lateral (
                select id, owner_id, assignee_id
from tasks
where parent_id = tree.id and deleted_at is null offset 0
              ) task
            )
            select unnest((select $3::uuid[])) union select owner_id
from tree union select assignee_id
from tree
            union 
  select user_id
from task_followers
where task_id in (select id
from tree)
  union select user_id
from reminders
where task_id in (select id
from tree)))
order by "users"."id"
for key share;

/* task_locks.select_links */
select "task_tags"."task_id", "task_tags"."tag_id"
from "task_tags"
inner join "tags" on "tags"."id" = "task_tags"."tag_id"
where ("task_tags"."task_id" = any((select $1::uuid[])::uuid[]) and "tags"."deleted_at" is null)
order by "task_tags"."tag_id";

/* task_locks.select_locked */
select "tasks"."id", "tasks"."version", "tasks"."side_changes", "tasks"."title", case when $1::bool then "tasks"."description" else '' end, "tasks"."status", "tasks"."priority", "tasks"."start_at", "tasks"."start_on", "tasks"."due_at", "tasks"."due_on", "tasks"."owner_id", "tasks"."assignee_id", "tasks"."project_id", "tasks"."section_id", "tasks"."parent_id", "tasks"."position", "tasks"."recurrence", "tasks"."series_id", "tasks"."recurrence_anchor", "tasks"."occurrence_number", "tasks"."occurrence_at", "tasks"."occurrence_on", "tasks"."next_task_id", "tasks"."metadata", "tasks"."external_source", "tasks"."external_id", "tasks"."deleted_at", "tasks"."subtask_count", exists (select
from reminders
where "reminders"."task_id" = "tasks"."id"), "users"."time_zone", "users"."deleted_at"
from "tasks"
inner join "users" on "users"."id" = "tasks"."owner_id"
where "tasks"."id" = any((select $2::uuid[])::uuid[]);

/* task_locks.select_owners */
select "owner_id"
from "tasks"
where "tasks"."id" = any((select $1::uuid[])::uuid[]);

/* task_locks.select_parent */
select "parent_id"
from "tasks"
where "tasks"."id" = $1::uuid;

/* task_locks.select_projects */
select "projects"."id", "projects"."archived_at", "projects"."deleted_at", "memberships"."role"
from "projects"
left join "memberships" on ("memberships"."project_id" = "projects"."id" and "memberships"."user_id" = $1::uuid)
where "projects"."id" = any(array(select unnest($2::uuid[]) union select project_id
from tasks
where id = any((select $3::uuid[])::uuid[])));

/* task_relations.delete */
delete from "task_relations"
where ("task_relations"."task_id" = $1::uuid and "task_relations"."kind" = $2::text and "task_relations"."other_task_id" = $3::uuid);

/* task_relations.insert */
insert into "task_relations" ("id", "task_id", "kind", "other_task_id", "created_at")
values ($1::uuid, $2::uuid, $3::text, $4::uuid, default);

/* task_tags.delete_links */
delete from "task_tags"
where ("task_tags"."task_id", "task_tags"."tag_id") in (select *
from unnest((select $1::uuid[]), $2::uuid[]));

/* tasks.count_attachments */
update "tasks"
set "attachment_count" = "tasks"."attachment_count" + $1::int, "side_changes" = "tasks"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "tasks"."created_at")
where "tasks"."id" = $2::uuid
returning "version";

/* tasks.count_blockers */
update "tasks"
set "blocker_count" = "tasks"."blocker_count" + $1::int, "changed_in" = pg_current_xact_id()
where "tasks"."id" = $2::uuid;

/* tasks.count_comments */
update "tasks"
set "comment_count" = "tasks"."comment_count" + $1::int, "side_changes" = "tasks"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "tasks"."created_at")
where "tasks"."id" = $2::uuid
returning "version";

/* tasks.delete */
delete from "tasks"
where "tasks"."id" = any((select $1::uuid[])::uuid[]);

/* tasks.lock */
select "id"
from "tasks"
where "tasks"."id" = any((select $1::uuid[])::uuid[])
order by "tasks"."id"
for no key update;

/* tasks.lock_projects */
select "id"
from "projects"
where "projects"."id" = any(array(select unnest($1::uuid[]) union select project_id
from tasks
where id = any((select $2::uuid[])::uuid[])))
order by "projects"."id"
for key share;

/* tasks.redeliver_blocked */
update "tasks"
set "changed_in" = pg_current_xact_id()
where "tasks"."id" in (select other_task_id
from task_relations
where task_id = any((select $1::uuid[])::uuid[]) and kind = 'blocks');

/* tasks.select_facts */
select "tasks"."id", "tasks"."version", "tasks"."owner_id", "tasks"."assignee_id", "tasks"."project_id", "projects"."archived_at", "projects"."deleted_at", "users"."deleted_at", "memberships"."role"
from "tasks"
inner join "users" on "users"."id" = "tasks"."owner_id"
left join "projects" on "projects"."id" = "tasks"."project_id"
left join "memberships" on ("memberships"."project_id" = "tasks"."project_id" and "memberships"."user_id" = $1::uuid)
where ("tasks"."id" = any($2::uuid[]) and "tasks"."deleted_at" is null);

/* tasks.select_facts_of_uploads */
select "tasks"."id", "tasks"."version", "tasks"."owner_id", "tasks"."assignee_id", "tasks"."project_id", "projects"."archived_at", "projects"."deleted_at", "users"."deleted_at", "memberships"."role"
from "tasks"
inner join "users" on "users"."id" = "tasks"."owner_id"
left join "projects" on "projects"."id" = "tasks"."project_id"
left join "memberships" on ("memberships"."project_id" = "tasks"."project_id" and "memberships"."user_id" = $1::uuid)
where ("tasks"."id" = any(array(select task_id
from uploads
where uploads.id = any($2::uuid[]))) and "tasks"."deleted_at" is null);

/* tasks.select_series */
select "recurrence", "series_id", "recurrence_anchor", "occurrence_number", "occurrence_at", "occurrence_on", "next_task_id"
from "tasks"
where "tasks"."id" = $1::uuid;

/* tasks.touch */
update "tasks"
set "version" = "tasks"."version" + 1, "updated_at" = greatest(clock_timestamp(), "tasks"."created_at")
where "tasks"."id" = any((select $1::uuid[])::uuid[]);

/* team_members.delete */
delete from "team_members"
where ("team_members"."team_id" = $1::uuid and "team_members"."user_id" = $2::uuid);

/* team_members.delete_sourced */
delete from "team_members"
where ("team_members"."team_id" = $1::uuid and "team_members"."user_id" = $2::uuid);

/* team_members.insert */
insert into "team_members" ("team_id", "user_id", "role", "source", "version", "created_at")
values ($1::uuid, $2::uuid, $3::text, default, default, default);

/* team_members.insert_manager */
insert into "team_members" ("team_id", "user_id", "role", "source", "version", "created_at")
values ($1::uuid, $2::uuid, $3, default, default, default);

/* team_members.insert_sourced */
insert into "team_members" ("team_id", "user_id", "role", "source", "version", "created_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, default, default);

/* team_members.select_facts */
select "team_members"."role", "team_members"."version", "team_members"."source"
from "users"
left join "team_members" on ("team_members"."user_id" = "users"."id" and "team_members"."team_id" = $1::uuid)
where ("users"."id" = $2::uuid and "users"."deleted_at" is null);

/* team_members.select_of_user */
select "team_id", "role", "source"
from "team_members"
where "team_members"."user_id" = $1::uuid;

/* team_members.select_sourced */
select "team_members"."role", "team_members"."source"
from "teams"
inner join "users" on ("users"."id" = $1::uuid and "users"."deleted_at" is null)
left join "team_members" on ("team_members"."team_id" = "teams"."id" and "team_members"."user_id" = "users"."id")
where "teams"."id" = $2::uuid;

/* team_members.update */
update "team_members"
set "role" = $1::text, "source" = $2, "version" = "team_members"."version" + 1
where ("team_members"."team_id" = $3::uuid and "team_members"."user_id" = $4::uuid);

/* team_members.update_sourced */
update "team_members"
set "role" = $1::text, "version" = "team_members"."version" + 1
where ("team_members"."team_id" = $2::uuid and "team_members"."user_id" = $3::uuid);

/* teams.delete */
delete from "teams"
where "teams"."id" = $1::uuid;

/* teams.delete_abandoned */
delete from "teams"
where "teams"."id" = any((select $1::uuid[])::uuid[]) and not exists (select 
 
from team_members join users on "users"."id" = "team_members"."user_id" and "users"."deleted_at" is null
 
where "team_members"."team_id" = "teams"."id");

/* teams.insert */
insert into "teams" ("id", "name", "name_folded", "version", "created_at", "updated_at")
values ($1::uuid, $2::text, default, default, default, default);

/* teams.lock_for_source */
select "id"
from "teams"
where "teams"."id" = $1::uuid
for no key update;

/* teams.lock_of_manager */
select "id"
from "teams"
where "teams"."id" in (
        select "team_members"."team_id"
from team_members
       
where "team_members"."user_id" = $1::uuid and "team_members"."role" = 'manager')
order by "teams"."id"
for update;

/* teams.lock_to_change */
select "id"
from "teams"
where "teams"."id" = $1::uuid
for no key update;

/* teams.lock_to_delete */
select "id"
from "teams"
where "teams"."id" = $1::uuid
for update;

/* teams.select_facts */
select "teams"."id", "teams"."name", "teams"."version", "team_members"."role", exists (
        select
from project_teams join memberships on "memberships"."project_id" = "project_teams"."project_id"
       
where "project_teams"."team_id" = "teams"."id" and "memberships"."user_id" = $1::uuid)
from "teams"
left join "team_members" on ("team_members"."team_id" = "teams"."id" and "team_members"."user_id" = $2::uuid)
where "teams"."id" = $3::uuid;

/* teams.select_projects */
select "project_id"
from "project_teams"
where "project_teams"."team_id" = $1::uuid;

/* teams.select_unmanaged */
select "id"
from "teams"
where "teams"."id" = any($1::uuid[]) and not exists (select 
 
from team_members join users on "users"."id" = "team_members"."user_id" and "users"."deleted_at" is null
 
where "team_members"."team_id" = "teams"."id" and "team_members"."role" = 'manager')
limit $2;

/* teams.update */
update "teams"
set "name" = $1::text, "version" = "teams"."version" + 1, "updated_at" = greatest(clock_timestamp(), "teams"."created_at")
where "teams"."id" = $2::uuid;

/* thumbnails.delete */
delete from "thumbnails"
where "thumbnails"."storage_key" = $1::text;

/* thumbnails.insert */
insert into "thumbnails" ("attachment_id", "width", "size", "sha256", "storage_key")
values ($1::uuid, $2::int, $3::int, $4::text, $5::text)
on conflict ("attachment_id","width") do update
set "width" = excluded.width
returning "storage_key", "size", "sha256";

/* trash.purge_projects */
update "projects"
set "purged_at" = now()
where "projects"."deleted_at" < 
  coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute')
from retention), now()) - make_interval(days => $1::int) and ("projects"."deleted_at" is not null and "projects"."purged_at" is null and "projects"."filling_import_id" is null);

/* trashed_projects.lock_people */
select "id"
from "users"
where "users"."id" = $1::uuid or "users"."id" in (select user_id
from project_grants
where project_id = $2::uuid)
order by "users"."id"
for key share;

/* trashed_projects.purge */
update "projects"
set "purged_at" = now()
where "projects"."id" = $1::uuid;

/* trashed_projects.restore */
update "projects"
set "version" = "projects"."version" + 1, "updated_at" = greatest(clock_timestamp(), "projects"."created_at"), "deleted_at" = $1, "visible_in" = pg_current_xact_id(), "is_redelivering" = (
  select count(*) > 100
from (
    select
from tasks
where project_id = projects.id and deleted_at is null
limit 100 + 1
  ) few)
where "projects"."id" = $2::uuid;

/* uploads.count_unfinished_imports */
select count(*)::int as "uploads"
from "uploads"
where ("uploads"."user_id" = $1::uuid and "uploads"."task_id" is null and "uploads"."import_id" is null and "uploads"."expires_at" > now());

/* uploads.delete */
delete from "uploads"
where "uploads"."id" = $1::uuid;

/* uploads.delete_leased */
delete from "uploads"
where ("uploads"."id" = $1::uuid and "uploads"."lease_id" = $2::uuid);

/* uploads.end_lease */
update "uploads"
set "lease_id" = $1, "leased_until" = $2
where ("uploads"."id" = $3::uuid and "uploads"."lease_id" = $4::uuid);

/* uploads.finish */
update "uploads"
set "upload_offset" = "uploads"."upload_length", "lease_id" = $1, "leased_until" = $2, "attachment_id" = $3::uuid, "task_version" = (select "tasks"."version"
from "tasks"
where "tasks"."id" = "uploads"."task_id"), "import_id" = $4::uuid
where "uploads"."id" = $5::uuid;

/* uploads.insert */
insert into "uploads" ("id", "task_id", "user_id", "file_name", "content_type", "sha256", "upload_metadata", "upload_length", "upload_offset", "storage_key", "lease_id", "leased_until", "attachment_id", "task_version", "import_id", "expires_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, $7::text, $8::bigint, default, $9::text, default, default, default, default, default, now() + interval '24 hours')
returning "expires_at";

/* uploads.lease */
update "uploads"
set "lease_id" = $1::uuid, "leased_until" = now() + interval '5 seconds'
where "uploads"."id" = $2::uuid;

/* uploads.lock */
select "id"
from "uploads"
where "uploads"."id" = $1::uuid
for update;

/* uploads.lock_leased */
select "id"
from "uploads"
where ("uploads"."id" = $1::uuid and "uploads"."lease_id" = $2::uuid)
for no key update;

/* uploads.record_offset */
update "uploads"
set "upload_offset" = $1::bigint, "leased_until" = now() + interval '5 seconds', "expires_at" = now() + interval '24 hours'
where ("uploads"."id" = $2::uuid and "uploads"."lease_id" = $3::uuid)
returning "expires_at";

/* uploads.renew_lease */
update "uploads"
set "leased_until" = now() + interval '5 seconds'
where ("uploads"."id" = $1::uuid and "uploads"."lease_id" = $2::uuid)
returning "id";

/* uploads.select */
select "id", "task_id", "user_id", "file_name", "content_type", "sha256", "upload_metadata", "upload_length", "upload_offset", "storage_key", "attachment_id", "task_version", "import_id", "expires_at", "expires_at" <= now(), coalesce(
        "leased_until" > now() and "leased_until" <= now() + interval '5 seconds' + interval '1 minute', false)
from "uploads"
where "uploads"."id" = $1::uuid;

/* uploads.sum_unfinished */
select coalesce(sum("upload_length"), 0)::float8
from "uploads"
where ("uploads"."user_id" = $1::uuid and "uploads"."task_id" is not null and "uploads"."attachment_id" is null);

/* users.charge_attachment */
update "users"
set "attachment_bytes" = "users"."attachment_bytes" + $1::bigint
where "users"."id" = $2::uuid;

/* users.forget_sign_in_due */
update "users"
set "sign_in_due_at" = $1
where ("users"."id" = $2::uuid and not exists (select
from identities
where "identities"."user_id" = $3::uuid) and "users"."sign_in_due_at" > now());

/* users.hide */
update "users"
set "username" = "users"."id"::text, "email" = "users"."id"::text, "display_name" = $1, "role" = $2, "password_hash" = $3, "deleted_at" = now()
where "users"."id" = $4::uuid;

/* users.insert */
insert into "users" ("id", "username", "email", "display_name", "role", "time_zone", "password_hash", "may_use_password", "sign_in_due_at", "is_disabled", "attachment_bytes", "attachment_quota_bytes", "task_quota", "version", "created_at", "updated_at", "deleted_at")
values ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, default, default, default, default, default, default, default, default, default, default);

/* users.lock_by_email */
select "id"
from "users"
where "users"."email" = $1::text
for no key update;

/* users.lock_caller */
select "id"
from "users"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null and "users"."is_disabled" = $2)
for key share;

/* users.lock_counters */
select "id"
from "users"
where "users"."id" = $1::uuid
for no key update;

/* users.lock_to_change */
select "id"
from "users"
where "users"."id" = $1::uuid
for no key update;

/* users.lock_to_rename */
select "id"
from "users"
where "users"."id" = $1::uuid
for update;

/* users.lock_to_use */
select "id"
from "users"
where "users"."id" = $1::uuid
for key share;

/* users.rehash_password */
update "users"
set "password_hash" = $1::text
where "users"."id" = $2::uuid;

/* users.restore_email */
update "users"
set "email" = $1::text, "password_hash" = case when "users"."password_hash" is not null then $2::text end, "version" = "users"."version" + 1, "updated_at" = greatest(clock_timestamp(), "users"."created_at")
where "users"."id" = $3::uuid;

/* users.select_account */
select "users"."id", "users"."username", "users"."email", "users"."password_hash", "users"."may_use_password", "users"."is_disabled", "second_factors"."secret", "second_factors"."confirmed_at"
from "users"
left join "second_factors" on "second_factors"."user_id" = "users"."id"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null);

/* users.select_by_email */
select "users"."id", "users"."role", exists (select
from identities
where "identities"."user_id" = "users"."id"), "second_factors"."confirmed_at" is not null
from "users"
left join "second_factors" on "second_factors"."user_id" = "users"."id"
where ("users"."email" = $1::text and "users"."deleted_at" is null);

/* users.select_caller */
select "users"."role", coalesce("sessions"."authenticated_at" between now() - interval '15 minutes' and now() + interval '15 minutes', false)
from "users"
left join "sessions" on "sessions"."id" = $1::uuid
where ("users"."id" = $2::uuid and "users"."deleted_at" is null and "users"."is_disabled" = $3);

/* users.select_credentials */
select "id", "password_hash", "may_use_password"
from "users"
where "users"."email" = $1::text;

/* users.select_credentials_by_username */
select "id", "password_hash", "may_use_password"
from "users"
where "users"."username" = $1::text;

/* users.select_facts */
select "username", "email", "display_name", "role", "time_zone", "is_disabled", "attachment_quota_bytes", "task_quota", "version", "may_use_password"
from "users"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null);

/* users.select_other_administrator */
select "id"
from "users"
where ("users"."role" = $1 and "users"."is_disabled" = $2 and "users"."id" <> $3::uuid)
limit $4;

/* users.select_own_account */
select "users"."id", "users"."username", "users"."email", "users"."password_hash", "users"."may_use_password", "users"."is_disabled", "second_factors"."secret", "second_factors"."confirmed_at", "sessions"."authenticated_at" between now() - interval '15 minutes' and now() + interval '15 minutes'
from "users"
inner join "sessions" on ("sessions"."id" = $1::uuid and "sessions"."user_id" = "users"."id")
left join "second_factors" on "second_factors"."user_id" = "users"."id"
where ("users"."id" = $2::uuid and "users"."deleted_at" is null and "users"."is_disabled" = $3 and "sessions"."expires_at" > now());

/* users.select_password */
select "password_hash", "may_use_password"
from "users"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null and "users"."is_disabled" = $2);

/* users.select_resets */
select "users"."id", "users"."password_hash", "users"."may_use_password", count("one_time_tokens"."hash")::int
from "users"
left join "one_time_tokens" on ("one_time_tokens"."user_id" = "users"."id" and "one_time_tokens"."purpose" = $1 and "one_time_tokens"."created_at" > now() - interval '1 hour')
where "users"."email" = $2::text
group by "users"."id";

/* users.select_storage_use */
select "attachment_bytes", "attachment_quota_bytes"
from "users"
where ("users"."id" = $1::uuid and "users"."deleted_at" is null);

/* users.set_password */
update "users"
set "password_hash" = $1::text
where "users"."id" = $2::uuid;

/* users.set_password_use */
update "users"
set "may_use_password" = $1::bool
where "users"."id" = $2::uuid;

/* users.set_sign_in_due */
update "users"
set "sign_in_due_at" = now() + make_interval(days => $1::int)
where "users"."id" = $2::uuid;

/* users.update */
update "users"
set "username" = $1::text, "email" = $2::text, "display_name" = $3::text, "role" = $4::text, "time_zone" = $5::text, "is_disabled" = $6::bool, "attachment_quota_bytes" = $7::bigint, "task_quota" = $8::int, "version" = "users"."version" + 1, "updated_at" = greatest(clock_timestamp(), "users"."created_at")
where "users"."id" = $9::uuid;

/* webhook_deliveries.insert */
insert into "webhook_deliveries" ("id", "webhook_id", "sequence", "event_id", "event_type", "event_changed_in", "event_ordinal", "status", "attempts", "due_at", "attempted_at", "duration_ms", "response_status", "response_body", "error", "created_at", "ended_at")
values ($1::uuid, $2::uuid, $3::bigint, $4::uuid, $5::text, $6::xid8, $7::bigint, default, default, clock_timestamp(), default, default, default, default, default, default, default);

/* webhook_deliveries.make_begin */
insert into "event_readers" ("name", "changed_in", "ordinal")
values ($1, pg_snapshot_xmin(pg_current_snapshot()), 0)
on conflict do nothing;

/* webhook_deliveries.select_message */
select "event_id", "event_type", "event_changed_in", "event_ordinal"
from "webhook_deliveries"
where ("webhook_deliveries"."id" = $1::uuid and "webhook_deliveries"."webhook_id" = $2::uuid);

/* webhooks.advance */
update "webhooks"
set "last_sequence" = $1::bigint, "due_at" = least("webhooks"."due_at", now())
where "webhooks"."id" = $2::uuid;

/* webhooks.count_owned */
select (select count(*)::int
from webhooks owned
where "owner_id" = $1::uuid and "deleted_at" is null)
from "users"
where "users"."id" = $2::uuid;

/* webhooks.insert */
insert into "webhooks" ("id", "owner_id", "project_id", "url", "description", "event_types", "secret", "previous_secret", "previous_secret_until", "is_enabled", "disabled_reason", "failing_since", "last_sequence", "due_at", "queue", "lease_id", "leased_until", "version", "side_changes", "created_at", "updated_at", "deleted_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text[], $7::bytea, default, default, $8::bool, default, default, default, default, default, default, default, default, default, default, default, default);

/* webhooks.lock */
select "id"
from "webhooks"
where "webhooks"."id" = $1::uuid
for no key update;

/* webhooks.lock_project */
select "id"
from "projects"
where "projects"."id" = (select "project_id"
from "webhooks"
where "webhooks"."id" = $1::uuid)
for key share;

/* webhooks.mark_deleted */
update "webhooks"
set "due_at" = $1, "deleted_at" = now()
where "webhooks"."id" = $2::uuid;

/* webhooks.move_to_slow */
update "webhooks"
set "queue" = $1
where ("webhooks"."id" = $2::uuid and "webhooks"."lease_id" = $3::uuid);

/* webhooks.rotate */
update "webhooks"
set "secret" = $1::bytea, "previous_secret" = "webhooks"."secret", "previous_secret_until" = now() + interval '24 hours'
where "webhooks"."id" = $2::uuid;

/* webhooks.select_facts */
select "webhooks"."id", "webhooks"."owner_id", "webhooks"."project_id", "webhooks"."url", "webhooks"."description", "webhooks"."event_types", "webhooks"."is_enabled", "webhooks"."last_sequence", "webhooks"."version", "memberships"."role"
from "webhooks"
inner join "users" on "users"."id" = "webhooks"."owner_id"
left join "projects" on "projects"."id" = "webhooks"."project_id"
left join "memberships" on ("memberships"."project_id" = "webhooks"."project_id" and "memberships"."user_id" = $1::uuid)
where ("webhooks"."id" = $2::uuid and "webhooks"."deleted_at" is null and "projects"."deleted_at" is null and ("webhooks"."project_id" is not null or "users"."deleted_at" is null));

/* webhooks.update */
update "webhooks"
set "url" = $1::text, "description" = $2::text, "event_types" = $3::text[], "is_enabled" = $4::bool, "disabled_reason" = case when not $5::bool then "webhooks"."disabled_reason" end, "failing_since" = case when not $6::bool then "webhooks"."failing_since" end
where "webhooks"."id" = $7::uuid;

/* webhooks.update_seals */
update "webhooks"
set "secret" = $1::bytea, "previous_secret" = nullif($2::bytea, '')
where ("webhooks"."id" = $3::uuid and "webhooks"."secret" = $4::bytea);

/* webhooks.wake */
update "webhooks"
set "due_at" = now()
where "webhooks"."due_at" > now();
