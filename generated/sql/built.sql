/* comments.delete */
delete from "comments"
where "comments"."id" = $1::uuid;

/* comments.insert */
insert into "comments" ("id", "task_id", "author_id", "body", "mentions", "version", "created_at", "edited_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::uuid[], default, default, default);

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

/* events.forget_values */
update "events"
set "before" = $1, "after" = $2
where ("events"."task_id" = $3::uuid and "events"."resource_id" = $4::uuid);

/* project_members.insert_manager */
insert into "project_members" ("project_id", "user_id", "role", "version", "created_at")
values ($1::uuid, $2::uuid, $3, default, default);

/* project_members.make_manager */
insert into "project_members" ("project_id", "user_id", "role", "version", "created_at")
values ($1::uuid, $2::uuid, $3, default, default)
on conflict ("project_id","user_id") do update
set "role" = $4;

/* projects.archive */
update "projects"
set "archived_at" = case when $1::bool then now() end, "version" = "projects"."version" + 1, "updated_at" = clock_timestamp()
where "projects"."id" = $2::uuid;

/* projects.insert */
insert into "projects" ("id", "name", "name_folded", "description", "color", "archived_at", "version", "created_at", "updated_at", "deleted_at", "purged_at", "visible_in")
values ($1::uuid, $2::text, default, $3::text, $4::text, default, default, default, default, default, default, default);

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

/* projects.select_facts */
select "projects"."id", "projects"."name", "projects"."description", "projects"."color", "projects"."archived_at", "projects"."version", "memberships"."role"
from "projects"
left join "memberships" on ("memberships"."project_id" = "projects"."id" and "memberships"."user_id" = $1::uuid)
where ("projects"."id" = $2::uuid and "projects"."deleted_at" is null);

/* projects.trash */
update "projects"
set "version" = "projects"."version" + 1, "updated_at" = clock_timestamp(), "deleted_at" = now()
where "projects"."id" = $1::uuid;

/* projects.update */
update "projects"
set "name" = $1::text, "description" = $2::text, "color" = $3::text, "version" = "projects"."version" + 1, "updated_at" = clock_timestamp()
where "projects"."id" = $4::uuid;

/* sections.delete */
delete from "sections"
where "sections"."id" = $1::uuid;

/* sections.insert */
insert into "sections" ("id", "project_id", "name", "position", "version", "created_at", "updated_at")
values ($1::uuid, $2::uuid, $3::text, $4::text, default, default, default);

/* sections.lock_tasks */
select "id"
from "tasks"
where "tasks"."id" = any($1::uuid[])
order by "tasks"."id"
for no key update;

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
set "position" = moved.position, "version" = "sections"."version" + 1, "updated_at" = clock_timestamp()
from unnest($1::uuid[], $2::text[]) as moved (id, position)
where "sections"."id" = moved.id;

/* sections.take_tasks_out */
update "tasks"
set "section_id" = $1
where ("tasks"."id" = any($2::uuid[]) and ("tasks"."project_id" = $3::uuid and "tasks"."section_id" = $4::uuid));

/* sections.update */
update "sections"
set "name" = $1::text, "position" = $2::text, "version" = "sections"."version" + 1, "updated_at" = clock_timestamp()
where "sections"."id" = $3::uuid;

/* task_followers.follow */
insert into "task_followers" ("task_id", "user_id", "has_stopped", "created_at")
values ($1::uuid, $2::uuid, default, default)
on conflict do nothing;

/* task_relations.delete */
delete from "task_relations"
where ("task_relations"."task_id" = $1::uuid and "task_relations"."kind" = $2::text and "task_relations"."other_task_id" = $3::uuid);

/* task_relations.insert */
insert into "task_relations" ("id", "task_id", "kind", "other_task_id", "created_at")
values ($1::uuid, $2::uuid, $3::text, $4::uuid, default);

/* task_tags.delete */
delete from "task_tags"
where ("task_tags"."task_id" = $1::uuid and "task_tags"."tag_id" = $2::uuid);

/* task_tags.delete_links */
delete from "task_tags"
where ("task_tags"."task_id", "task_tags"."tag_id") in (select *
from unnest($1::uuid[], $2::uuid[]));

/* task_tags.insert */
insert into "task_tags" ("task_id", "tag_id")
values ($1::uuid, $2::uuid);

/* task_tags.lock_tag */
select "id"
from "tags"
where "tags"."id" = $1::uuid
for key share;

/* tasks.count_blockers */
update "tasks"
set "blocker_count" = "tasks"."blocker_count" + $1::int, "changed_in" = pg_current_xact_id()
where "tasks"."id" = $2::uuid;

/* tasks.count_comments */
update "tasks"
set "comment_count" = "tasks"."comment_count" + $1::int, "version" = "tasks"."version" + 1, "updated_at" = clock_timestamp()
where "tasks"."id" = $2::uuid
returning "version";

/* tasks.lock */
select "id"
from "tasks"
where "tasks"."id" = any($1::uuid[])
order by "tasks"."id"
for no key update;

/* tasks.lock_projects */
select "id"
from "projects"
where "projects"."id" = any(array(select project_id
from tasks
where id = any($1::uuid[])))
order by "projects"."id"
for key share;

/* tasks.select_facts */
select "tasks"."id", "tasks"."version", "tasks"."owner_id", "tasks"."assignee_id", "tasks"."project_id", "projects"."archived_at", "projects"."deleted_at", "users"."deleted_at", "memberships"."role"
from "tasks"
inner join "users" on "users"."id" = "tasks"."owner_id"
left join "projects" on "projects"."id" = "tasks"."project_id"
left join "memberships" on ("memberships"."project_id" = "tasks"."project_id" and "memberships"."user_id" = $1::uuid)
where ("tasks"."id" = any($2::uuid[]) and "tasks"."deleted_at" is null);

/* tasks.touch */
update "tasks"
set "version" = "tasks"."version" + 1, "updated_at" = clock_timestamp()
where "tasks"."id" = any($1::uuid[])
returning "version";

/* trashed_projects.purge */
update "projects"
set "purged_at" = now()
where "projects"."id" = $1::uuid;

/* trashed_projects.restore */
update "projects"
set "version" = "projects"."version" + 1, "updated_at" = clock_timestamp(), "deleted_at" = $1
where "projects"."id" = $2::uuid;

/* webhook_deliveries.insert */
insert into "webhook_deliveries" ("id", "webhook_id", "sequence", "event_id", "event_type", "event_changed_in", "event_ordinal", "status", "attempts", "due_at", "attempted_at", "duration_ms", "response_status", "response_body", "error", "created_at", "ended_at")
values ($1::uuid, $2::uuid, $3::bigint, $4::uuid, $5::text, $6::xid8, $7::bigint, default, default, clock_timestamp(), default, default, default, default, default, default, default);

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
where owned.owner_id = $1::uuid and owned.deleted_at is null)
from "users"
where "users"."id" = $2::uuid;

/* webhooks.insert */
insert into "webhooks" ("id", "owner_id", "project_id", "url", "description", "event_types", "secret", "previous_secret", "previous_secret_until", "is_enabled", "disabled_reason", "failing_since", "last_sequence", "due_at", "queue", "lease_id", "leased_until", "version", "created_at", "updated_at", "deleted_at")
values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text[], $7::bytea, default, default, $8::bool, default, default, default, default, default, default, default, default, default, default, default);

/* webhooks.lock */
select "id"
from "webhooks"
where "webhooks"."id" = $1::uuid
for no key update;

/* webhooks.lock_owner */
select "id"
from "users"
where "users"."id" = $1::uuid
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
