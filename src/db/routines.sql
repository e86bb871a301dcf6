-- Revision 11
--
-- Functions and triggers, and the indexes that call these functions: everything that drizzle-kit cannot derive from
-- schema/tables.ts. The whole file is applied after the migrations whenever it has changed, so each statement can be repeated.
-- A release that changes the file raises the revision: an older version that starts meanwhile leaves newer routines alone.
--
-- Whatever a service or a job can call, it calls. The functions say who calls them. A trigger is only for rows that cascades remove,
-- and for what has to be true of a row whichever of many statements writes it:
--
--   tasks_text_inserted, tasks_text_changed    tasks.insert, tasks.update: the words are in the row, and computed in SQL
--   projects_, tags_, teams_name_folded        every insert and update of a name, and tags.insert_named_by_owner_id and _project_id
--   tasks_stamped                              the twenty statements that update tasks; the change feed misses what has no stamp
--   webhooks_touch                             the sender and jobs, which find out only in SQL whether a client sees the change
--   tasks_viewers_changed, tasks_removed       tombstones: tasks.update, tasks.transfer, tasks.purge_assignee and every deletion of tasks
--   tasks_open_added, _changed, _removed       counts: tasks.insert, tasks.update, and every deletion of tasks
--   tasks_removed_counted                      counts: every deletion of tasks
--   tasks_tags_viewers_changed, _tags_removed  counts: tasks.update, tasks.purge_assignee and every deletion of tasks
--   task_tags_counted, task_tags_uncounted     counts: task_tags.*, and cascades
--   tasks_counted, tasks_moved_counted, task_tags_written   the commit of all of these, which is the only place to write counts in one order
--   tasks_subtask_removed, task_relations_cascaded          every deletion of tasks: what is left of a tree, and of a relation
--   tasks_values_cleared, projects_values_cleared           every deletion of tasks and of projects
--   attachments_, thumbnails_, uploads_, exports_, imports_removed, attachments_refunded   cascades from tasks, attachments, projects and users
--
-- The deletions of tasks: tasks.delete, tasks.purge_project, tasks.purge_user, trash.remove_batch, and the cascades of users and
-- projects.
--
-- PostgreSQL fires the triggers of a table in the order of their names, so a new name can change the order.

-- Search ------------------------------------------------------------------------------------------------------------
-- For tasks.insert, tasks.update, and the indexes of names.
-- Text is folded (fold_text, in migrations/folding.sql) and split into words here rather than by a text search configuration, whose
-- parser depends on the database's locale; domain/shared/search.ts splits a query in the same way. Collations are explicit for the same
-- reason. Extensions (unaccent, pg_trgm) would have to be installed by a database administrator.

-- For index_task_text(): the searched part of a text, its first 8,192 characters, folded. One character can become 18, so the folded
-- text is cut as well. This bounds the time of a write and the size of the tsvector.
CREATE OR REPLACE FUNCTION searched_text(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN left(fold_text(left(value, 8192)), 8192);

-- For index_task_text(): the words of a folded text with their positions. Scripts without spaces between words (Chinese, Japanese,
-- Korean, Thai, Lao) are indexed as bigrams, pairs of adjacent characters; the last character of a run stands alone. Lateral joins
-- keep the order of the words. PL/pgSQL keeps the plan for the session; an SQL function would be planned again for each row.
CREATE OR REPLACE FUNCTION words_of(value text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN (WITH runs AS MATERIALIZED (
    SELECT run, run ~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]' AS is_unspaced
    FROM string_to_table(
      regexp_replace(
        regexp_replace(value COLLATE "C", between_words(), ' ', 'g'),
        '([\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+)', ' \1 ', 'g'),
      ' ') run
    WHERE run <> ''
  ), lexemes AS (
    SELECT lexeme FROM runs, LATERAL (
      SELECT left(run, 64) AS lexeme WHERE NOT is_unspaced
      UNION ALL
      SELECT character || coalesce(lead(character) OVER (), '')
      FROM unnest(string_to_array(run, NULL)) character WHERE is_unspaced
    ) lexemes
  )
  SELECT coalesce(string_agg('''' || lexeme || ''':' || least(place, 16383), ' '), '')::tsvector
  FROM (SELECT lexeme, row_number() OVER () AS place FROM lexemes) placed);
END $$;

-- For the indexes below and searches by name: the bigrams of a text. An index on them finds any part of it.
CREATE OR REPLACE FUNCTION bigrams_of(value text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(DISTINCT a || b), '{}')
  FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
  WHERE b IS NOT NULL;
END;

-- For index_task_text(): the same bigrams as lexemes. The prefix U+0001 keeps them apart from words.
CREATE OR REPLACE FUNCTION bigram_lexemes(value text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN (
    SELECT array_to_tsvector(coalesce(array_agg(U&'\0001' || a || b), '{}'))
    FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
    WHERE b IS NOT NULL);
END $$;

-- A trigger rather than generated columns, which the trigger tasks_stamped could not compare.
CREATE OR REPLACE FUNCTION index_task_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.title_folded := searched_text(NEW.title);
  NEW.description_folded := searched_text(NEW.description);
  NEW.search := setweight(words_of(NEW.title_folded), 'A') || setweight(words_of(NEW.description_folded), 'D')
    || bigram_lexemes(NEW.title_folded);
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER tasks_text_inserted BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION index_task_text();

CREATE OR REPLACE TRIGGER tasks_text_changed BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.title, OLD.description) IS DISTINCT FROM (NEW.title, NEW.description)) EXECUTE FUNCTION index_task_text();

CREATE INDEX IF NOT EXISTS users_name_bigrams ON users USING gin (bigrams_of(fold_text(username || ' ' || display_name)));
CREATE INDEX IF NOT EXISTS tags_name_bigrams ON tags USING gin (bigrams_of(name_folded));
CREATE INDEX IF NOT EXISTS projects_name_bigrams ON projects USING gin (bigrams_of(name_folded));
CREATE INDEX IF NOT EXISTS teams_name_bigrams ON teams USING gin (bigrams_of(name_folded));

-- Lists of names are sorted by it, and searched.
CREATE OR REPLACE FUNCTION fold_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.name_folded := fold_text(NEW.name);
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER projects_name_folded BEFORE INSERT OR UPDATE OF name ON projects
  FOR EACH ROW EXECUTE FUNCTION fold_name();

CREATE OR REPLACE TRIGGER teams_name_folded BEFORE INSERT OR UPDATE OF name ON teams
  FOR EACH ROW EXECUTE FUNCTION fold_name();

CREATE OR REPLACE TRIGGER tags_name_folded BEFORE INSERT OR UPDATE OF name ON tags
  FOR EACH ROW EXECUTE FUNCTION fold_name();

-- Versions ----------------------------------------------------------------------------------------------------------
-- Whoever changes a row gives it a new version or revision (db/shared/touch.ts), except for webhooks, which the sender changes as well.

-- For webhooks_touch, below.
CREATE OR REPLACE FUNCTION touch_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (OLD.url, OLD.description, OLD.event_types, OLD.secret, OLD.is_enabled)
    IS DISTINCT FROM (NEW.url, NEW.description, NEW.event_types, NEW.secret, NEW.is_enabled) THEN
    NEW.version := OLD.version + 1;
  ELSE
    NEW.side_changes := OLD.side_changes + 1;
  END IF;
  NEW.updated_at := clock_timestamp();
  RETURN NEW;
END $$;

-- For makers and records of deliveries: sets `due_at` of webhooks to that of their next pending delivery. Locks the webhooks first,
-- so that of two concurrent transactions, the second sees the deliveries that the first has added.
CREATE OR REPLACE FUNCTION reschedule_webhooks(ids uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM webhooks WHERE id = ANY (ids) ORDER BY id FOR NO KEY UPDATE;
  UPDATE webhooks SET due_at = next.due_at
  FROM (
    SELECT id, (SELECT min(due_at) FROM webhook_deliveries WHERE webhook_id = wanted.id AND status = 'pending') AS due_at
    FROM unnest(ids) wanted (id)
  ) next
  WHERE webhooks.id = next.id AND webhooks.deleted_at IS NULL AND webhooks.due_at IS DISTINCT FROM next.due_at;
END $$;

-- Columns that only the sender uses are not part of the representation. A trigger, because the sender (webhook_deliveries.record) and
-- jobs (webhooks.remove_previous_secrets, webhooks.shorten) change the others as well, and find out only in SQL whether they do.
CREATE OR REPLACE TRIGGER webhooks_touch BEFORE UPDATE ON webhooks FOR EACH ROW
  WHEN ((OLD.url, OLD.description, OLD.event_types, OLD.secret, OLD.previous_secret_until, OLD.is_enabled, OLD.disabled_reason, OLD.failing_since)
    IS DISTINCT FROM (NEW.url, NEW.description, NEW.event_types, NEW.secret, NEW.previous_secret_until, NEW.is_enabled, NEW.disabled_reason, NEW.failing_since))
  EXECUTE FUNCTION touch_webhook();
DROP FUNCTION IF EXISTS touch();

-- Records the transaction of each change, which orders the change feed, and when a task came to its project, whichever statement writes.
CREATE OR REPLACE FUNCTION stamp_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.changed_in := pg_current_xact_id();
  IF NEW.project_id IS DISTINCT FROM OLD.project_id THEN
    NEW.placed_at := clock_timestamp();
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER tasks_stamped BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION stamp_task();

-- Membership --------------------------------------------------------------------------------------------------------
-- `memberships` stores who has access to a project. Whoever changes what grants it computes it anew (db/projects/memberships.ts).

-- For memberships, heirs and the trash: the roles granted to members and to members of teams. Includes projects in the trash.
CREATE OR REPLACE VIEW project_grants AS
  SELECT project_id, user_id, role FROM project_members
  UNION ALL SELECT project.project_id, member.user_id, project.role
  FROM project_teams project JOIN team_members member ON member.team_id = project.team_id;

-- For compute_memberships() and the heirs of users: each role includes the roles of a lower rank.
CREATE OR REPLACE FUNCTION role_rank(role text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN array_position(ARRAY['viewer', 'commenter', 'editor', 'manager'], role);

-- For memberships.compute and memberships.compute_all: computes the memberships of projects, of all users or of those in `whose`, and
-- returns what has changed: null is no access. The caller has locked the projects FOR UPDATE, which also waits for tasks that are
-- being added: members who leave may have seen them. In PL/pgSQL, which keeps the plan.
CREATE OR REPLACE FUNCTION compute_memberships(which uuid[], whose uuid[])
RETURNS TABLE (project_id uuid, user_id uuid, role_before text, role_after text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH granted AS (
    SELECT grants.project_id, grants.user_id, (array_agg(grants.role ORDER BY role_rank(grants.role) DESC))[1] AS role
    FROM project_grants grants
      JOIN projects project ON project.id = grants.project_id AND project.deleted_at IS NULL
      JOIN users member ON member.id = grants.user_id AND member.deleted_at IS NULL
    WHERE grants.project_id = ANY (which) AND (whose IS NULL OR grants.user_id = ANY (whose))
    GROUP BY grants.project_id, grants.user_id
  ), ended AS (
    DELETE FROM memberships membership
    WHERE membership.project_id = ANY (which) AND (whose IS NULL OR membership.user_id = ANY (whose))
      AND NOT EXISTS (
        SELECT FROM granted
        WHERE granted.project_id = membership.project_id AND granted.user_id = membership.user_id)
    RETURNING membership.project_id, membership.user_id, membership.role
  ), recorded AS (
    INSERT INTO membership_tombstones (project_id, user_id, left_in, created_at)
      SELECT ended.project_id, ended.user_id, pg_current_xact_id(), clock_timestamp() FROM ended
      ON CONFLICT ON CONSTRAINT membership_tombstones_once
        DO UPDATE SET left_in = EXCLUDED.left_in, created_at = EXCLUDED.created_at
  ), given AS (
    INSERT INTO memberships AS membership (project_id, user_id, role)
      SELECT granted.project_id, granted.user_id, granted.role FROM granted ORDER BY granted.project_id, granted.user_id
      ON CONFLICT (user_id, project_id) DO UPDATE SET role = EXCLUDED.role WHERE membership.role <> EXCLUDED.role
      RETURNING membership.project_id, membership.user_id, membership.role
  )
  SELECT ended.project_id, ended.user_id, ended.role, NULL::text FROM ended
  UNION ALL
  SELECT given.project_id, given.user_id, earlier.role, given.role
  FROM given LEFT JOIN memberships earlier ON earlier.project_id = given.project_id AND earlier.user_id = given.user_id;
END $$;

-- Counts -----------------------------------------------------------------------------------------------------------------
-- The open tasks of a project, the tasks with a tag for each viewer, and the tasks that an owner loses. Many transactions change the same
-- counts, and one that changed them while it writes would wait for others in the order of its tasks. Triggers therefore sum the changes up
-- in a setting of the transaction, a JSON object of sums by what is counted, and its commit writes them, sorted. The object has a member
-- for each count and not for each row: a statement of thousands of rows changes few counts.

-- For the triggers below: `counted` is an object of ids. 0.2 had a function of this name for a list of changes.
DROP FUNCTION IF EXISTS count_later(jsonb);
CREATE OR REPLACE FUNCTION count_later(counted jsonb, change bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  sums jsonb := coalesce(nullif(current_setting('taskwright.counts', true), ''), '{}');
BEGIN
  PERFORM set_config('taskwright.counts',
    (sums || jsonb_build_object(counted::text, coalesce((sums ->> counted::text)::bigint, 0) + change))::text, true);
END $$;

-- Fires for each row that has changed a count. The first of them writes all changes. Locks in the order: owners, projects, tags.
CREATE OR REPLACE FUNCTION write_counts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  sums jsonb := nullif(current_setting('taskwright.counts', true), '');
  changes jsonb;
BEGIN
  IF sums IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('taskwright.counts', '', true);
  changes := (SELECT jsonb_agg(key::jsonb || jsonb_build_object('tasks', value)) FROM jsonb_each(sums) WHERE value <> '0');

  IF changes @? '$[*].owner_id' THEN
    PERFORM FROM task_counts WHERE user_id IN (SELECT owner_id FROM jsonb_to_recordset(changes) change (owner_id uuid))
      ORDER BY user_id FOR NO KEY UPDATE;
    UPDATE task_counts SET tasks = task_counts.tasks + change.tasks
    FROM jsonb_to_recordset(changes) change (owner_id uuid, tasks int) WHERE user_id = change.owner_id;
  END IF;

  IF changes @? '$[*].open_in' THEN
    INSERT INTO project_counts AS counts (project_id, open_tasks)
      SELECT open_in, tasks FROM jsonb_to_recordset(changes) change (open_in uuid, tasks int)
      -- A project that is being deleted with its tasks has no row to count in.
      WHERE EXISTS (SELECT FROM projects WHERE id = open_in) ORDER BY open_in
      ON CONFLICT (project_id) DO UPDATE SET open_tasks = counts.open_tasks + EXCLUDED.open_tasks;
  END IF;

  IF changes @? '$[*].tag_id' THEN
    INSERT INTO tag_counts AS counts (tag_id, project_id, user_id, tasks, created_at)
      SELECT tag_id, change.project_id, change.user_id, tasks, tags.created_at
      FROM jsonb_to_recordset(changes) change (tag_id uuid, project_id uuid, user_id uuid, tasks int) JOIN tags ON tags.id = tag_id
      ORDER BY tag_id, change.project_id, change.user_id
      ON CONFLICT ON CONSTRAINT tag_counts_once DO UPDATE SET tasks = counts.tasks + EXCLUDED.tasks;
    DELETE FROM tag_counts
    WHERE tag_id IN (SELECT tag_id FROM jsonb_to_recordset(changes) change (tag_id uuid, tasks int) WHERE change.tasks < 0)
      AND (tasks = 0 OR NOT EXISTS (SELECT FROM tags WHERE id = tag_id));
  END IF;
  RETURN NULL;
END $$;

-- For count_open_tasks().
CREATE OR REPLACE FUNCTION is_open(task tasks) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN (task).deleted_at IS NULL AND (task).status IN ('todo', 'in_progress');

-- The number of a project's tasks that are neither closed nor in the trash.
CREATE OR REPLACE FUNCTION count_open_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND OLD.project_id IS NOT NULL AND is_open(OLD) THEN
    PERFORM count_later(jsonb_build_object('open_in', OLD.project_id), -1);
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.project_id IS NOT NULL AND is_open(NEW) THEN
    PERFORM count_later(jsonb_build_object('open_in', NEW.project_id), 1);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_open_added AFTER INSERT ON tasks FOR EACH ROW
  WHEN (NEW.project_id IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

CREATE OR REPLACE TRIGGER tasks_open_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.project_id, OLD.status, OLD.deleted_at) IS DISTINCT FROM (NEW.project_id, NEW.status, NEW.deleted_at)
    AND coalesce(OLD.project_id, NEW.project_id) IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

CREATE OR REPLACE TRIGGER tasks_open_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.project_id IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

-- Other writers count what owners get and lose themselves (quotas.count_tasks).
CREATE OR REPLACE FUNCTION count_removed_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM count_later(jsonb_build_object('owner_id', owner_id), -count(*)) FROM removed GROUP BY owner_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_removed_counted AFTER DELETE ON tasks
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_tasks();

-- The functions for tags read the current state of the tasks: a statement that adds or removes a tag, or changes who sees the task, has
-- locked the task first.
CREATE OR REPLACE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM count_later(jsonb_build_object('tag_id', link.tag_id, 'project_id', viewer.project_id, 'user_id', viewer.user_id),
    CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END)
  FROM changed link JOIN tasks task ON task.id = link.task_id, LATERAL task_viewers(task) viewer
  GROUP BY link.tag_id, viewer.project_id, viewer.user_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_counted AFTER INSERT ON task_tags
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_tags();

-- The links of a deleted task were subtracted when it was deleted.
CREATE OR REPLACE TRIGGER task_tags_uncounted AFTER DELETE ON task_tags
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_tags();

-- Fires when a task gets other viewers, is moved to or from the trash, or is deleted.
CREATE OR REPLACE FUNCTION count_tags_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM count_later(jsonb_build_object('tag_id', tag_id, 'project_id', project_id, 'user_id', user_id), change)
  FROM task_tags, (
    SELECT project_id, user_id, -1 AS change FROM task_viewers(OLD)
    UNION ALL SELECT project_id, user_id, 1 FROM task_viewers(NEW) WHERE TG_OP = 'UPDATE'
  ) viewer
  WHERE task_id = OLD.id;
  RETURN OLD;
END $$;

-- Fires before the deletion, which removes the links.
CREATE OR REPLACE TRIGGER tasks_tags_removed BEFORE DELETE ON tasks FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION count_tags_of_task();

-- The commit fires constraint triggers. They cannot be replaced, only created.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_trigger WHERE tgname = 'tasks_counted') THEN
    RETURN;
  END IF;
  CREATE CONSTRAINT TRIGGER tasks_counted AFTER INSERT OR DELETE ON tasks
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION write_counts();
  CREATE CONSTRAINT TRIGGER tasks_moved_counted AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.owner_id, OLD.project_id, OLD.assignee_id, OLD.status, OLD.deleted_at)
      IS DISTINCT FROM (NEW.owner_id, NEW.project_id, NEW.assignee_id, NEW.status, NEW.deleted_at))
    EXECUTE FUNCTION write_counts();
  CREATE CONSTRAINT TRIGGER task_tags_written AFTER INSERT OR DELETE ON task_tags
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION write_counts();
END $$;

-- Relations -------------------------------------------------------------------------------------------------------------

-- For task_relations.select_path: the tasks from `blocked` to `blocker`, each of which blocks the next; null if there is no such
-- path. If there is one, a relation between the two would close a cycle. Empty if `blocked` blocks more tasks than the contract
-- allows: others may wait for the search. `previous` has a task that blocks each task that was reached.
CREATE OR REPLACE FUNCTION blocking_path(blocker uuid, blocked uuid) RETURNS uuid[]
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  previous jsonb := jsonb_build_object(blocked, NULL);
  found jsonb;
  latest uuid[] := ARRAY[blocked];
  reached int := 0;
  path uuid[] := ARRAY[blocker];
BEGIN
  WHILE NOT previous ? blocker::text LOOP
    SELECT jsonb_object_agg(other_task_id, task_id), array_agg(DISTINCT other_task_id) INTO found, latest
    FROM task_relations
    WHERE task_id = ANY (latest) AND kind = 'blocks' AND NOT previous ? other_task_id::text;
    IF found IS NULL THEN
      RETURN NULL;
    END IF;
    previous := previous || found;
    reached := reached + cardinality(latest);
    IF reached > 1000 THEN
      RETURN '{}';
    END IF;
  END LOOP;
  WHILE path[1] <> blocked LOOP
    path := (previous ->> path[1]::text)::uuid || path;
  END LOOP;
  RETURN path;
END $$;

-- Subtasks ----------------------------------------------------------------------------------------------------------
-- A task and its subtasks, at all levels, are in the same place: one project, or the personal tasks of one owner. When a task moves
-- to another place, to the trash or out of it, the subtasks in its old place move with it.

-- For task_locks.lock_trees: locks all tasks that a transaction may read or write, and returns the ids of those that it may read:
-- `targets` and their parents, whose counts change; `parents` and the tasks above them; the subtasks of `roots`, up to one more than
-- can be written at once (maxMovedSubtasks); and `trashed` with the subtasks that were deleted with it. The parent of a task in the
-- trash is left out, since it can be anywhere. The others are locked because they change with those: tasks that they block, and what
-- a permanent deletion touches. Locks in the order of ids, and repeats the search until no other transaction has changed these trees
-- in the meantime. If they then have a task that comes before a locked one, the transaction is repeated, since it could deadlock. The
-- generic plan is forced, because PostgreSQL would plan the query at each call. OFFSET 0 forces an index lookup for each task: if a
-- few tasks have most of the subtasks, a join would read the subtasks of all tasks.
CREATE OR REPLACE FUNCTION lock_trees(targets uuid[], parents uuid[], roots uuid[], trashed uuid) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  tree uuid[];
  missing uuid[];
  locked uuid[] := '{}';
BEGIN
  LOOP
    WITH RECURSIVE above AS (
      SELECT id, parent_id, deleted_at FROM tasks WHERE id = ANY (parents)
      UNION SELECT task.id, task.parent_id, task.deleted_at
      FROM above, LATERAL (SELECT id, parent_id, deleted_at FROM tasks WHERE id = above.parent_id OFFSET 0) task
      WHERE above.deleted_at IS NULL
    ), below AS (
      SELECT id FROM tasks WHERE parent_id = ANY (roots) AND deleted_at IS NULL
      UNION SELECT task.id
      FROM below, LATERAL (SELECT id FROM tasks WHERE parent_id = below.id AND deleted_at IS NULL OFFSET 0) task
    ), trash AS (
      SELECT id, parent_id, deleted_at FROM tasks WHERE id = trashed AND deleted_at IS NOT NULL
      UNION SELECT task.id, task.parent_id, task.deleted_at
      FROM trash, LATERAL (SELECT id, parent_id, deleted_at FROM tasks WHERE parent_id = trash.id OFFSET 0) task
      WHERE task.deleted_at = trash.deleted_at
    ), member AS (
      SELECT unnest(targets) AS id
      UNION SELECT parent_id FROM tasks WHERE id = ANY (targets) AND parent_id IS NOT NULL AND deleted_at IS NULL
      UNION SELECT id FROM above
      UNION (SELECT id FROM below LIMIT 501)
      UNION SELECT id FROM trash
    )
    SELECT array_agg(id) FILTER (WHERE is_member), array_agg(id) FILTER (WHERE id <> ALL (locked)) INTO tree, missing
    FROM (
      SELECT id, true AS is_member FROM member
      UNION ALL SELECT blocked.id, false FROM member, LATERAL (
        SELECT other_task_id AS id FROM task_relations WHERE task_id = member.id AND kind = 'blocks' OFFSET 0) blocked
      UNION ALL SELECT parent_id, false FROM trash WHERE parent_id IS NOT NULL
      UNION ALL SELECT related.id, false FROM trash, LATERAL (
        SELECT other_task_id AS id FROM task_relations WHERE task_id = trash.id
        UNION ALL SELECT task_id FROM task_relations WHERE other_task_id = trash.id OFFSET 0) related
    ) wanted;
    EXIT WHEN missing IS NULL;
    IF EXISTS (SELECT FROM unnest(missing) id WHERE id < ANY (locked)) THEN
      RAISE EXCEPTION 'Tasks were moved while they were locked' USING ERRCODE = 'serialization_failure';
    END IF;
    IF trashed IS NULL THEN
      PERFORM FROM tasks WHERE id = ANY (missing) ORDER BY id FOR NO KEY UPDATE;
    ELSE
      PERFORM FROM tasks WHERE id = ANY (missing) ORDER BY id FOR UPDATE;
    END IF;
    locked := locked || missing;
  END LOOP;
  RETURN tree;
END $$;

-- Counts a subtask that is deleted permanently, with the trash or with its owner.
CREATE OR REPLACE FUNCTION count_removed_subtask() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET
    subtask_count = subtask_count - 1,
    open_subtask_count = open_subtask_count - (OLD.status IN ('todo', 'in_progress'))::int,
    side_changes = side_changes + 1,
    updated_at = greatest(clock_timestamp(), created_at)
  WHERE id = OLD.parent_id AND (OLD.deleted_at IS NULL OR OLD.deleted_at = deleted_at);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_subtask_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.parent_id IS NOT NULL) EXECUTE FUNCTION count_removed_subtask();

-- Attachments and files ---------------------------------------------------------------------------------------------

-- Removing a row queues its file for removal, and an attachment no longer counts as used by its uploader. Triggers, because most of
-- these rows are removed by cascades: with the tasks that are purged (trash.delete, trash.remove_batch, tasks.purge_project,
-- tasks.purge_user), with an attachment (its upload and its thumbnails), and with a user (uploads.purge_user).

CREATE OR REPLACE FUNCTION queue_file_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key, is_unfinished) VALUES (OLD.storage_key, TG_TABLE_NAME = 'uploads');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_removed AFTER DELETE ON attachments
  FOR EACH ROW EXECUTE FUNCTION queue_file_deletion();

CREATE OR REPLACE TRIGGER thumbnails_removed AFTER DELETE ON thumbnails
  FOR EACH ROW EXECUTE FUNCTION queue_file_deletion();

CREATE OR REPLACE TRIGGER exports_removed AFTER DELETE ON exports FOR EACH ROW
  WHEN (OLD.storage_key IS NOT NULL) EXECUTE FUNCTION queue_file_deletion();

CREATE OR REPLACE TRIGGER imports_removed AFTER DELETE ON imports FOR EACH ROW
  WHEN (OLD.storage_key IS NOT NULL) EXECUTE FUNCTION queue_file_deletion();

-- The bytes of a finished upload belong to the attachment or the import.
CREATE OR REPLACE TRIGGER uploads_removed AFTER DELETE ON uploads FOR EACH ROW
  WHEN (OLD.attachment_id IS NULL AND OLD.import_id IS NULL) EXECUTE FUNCTION queue_file_deletion();

-- Locks the uploaders in the order of their ids to prevent deadlocks between two deletions. An attachment loses its uploader only when
-- that user is deleted, and the total with it.
CREATE OR REPLACE FUNCTION refund_removed_attachments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM users WHERE id IN (SELECT uploaded_by FROM removed) ORDER BY id FOR NO KEY UPDATE;
  UPDATE users SET attachment_bytes = attachment_bytes - refund.size
  FROM (SELECT uploaded_by, sum(size) AS size FROM removed GROUP BY uploaded_by) refund
  WHERE users.id = refund.uploaded_by;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_refunded AFTER DELETE ON attachments
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION refund_removed_attachments();

-- Email digests -----------------------------------------------------------------------------------------------------

-- Called by 0.2.0 only, while it is upgraded. It takes names of zones that are also abbreviations, such as CET, for fixed offsets.
CREATE OR REPLACE FUNCTION next_digest_at(mail_digest text, time_zone text) RETURNS timestamptz LANGUAGE sql STABLE
RETURN CASE mail_digest
  WHEN 'hourly' THEN now() + interval '1 hour'
  WHEN 'daily' THEN
    (date_trunc('day', now() AT TIME ZONE time_zone + interval '16 hours') + interval '8 hours') AT TIME ZONE time_zone
END;

-- Change feed -------------------------------------------------------------------------------------------------------

-- Writes a tombstone for each viewer who no longer sees the task, and removes it for each user who sees it again. The tombstone
-- of a project stays, for members who have left the project since.
CREATE OR REPLACE FUNCTION write_tombstones() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_tombstones AS tombstone (task_id, project_id, user_id, changed_in, placed_at)
    SELECT OLD.id, project_id, user_id, pg_current_xact_id(), coalesce(OLD.placed_at, OLD.created_at) FROM (
      SELECT * FROM task_viewers(OLD) EXCEPT SELECT * FROM task_viewers(NEW) WHERE TG_OP = 'UPDATE'
    ) viewer
    ON CONFLICT ON CONSTRAINT task_tombstones_once DO UPDATE SET
      changed_in = EXCLUDED.changed_in, created_at = EXCLUDED.created_at,
      placed_at = least(tombstone.placed_at, EXCLUDED.placed_at);
  IF TG_OP = 'UPDATE' THEN
    DELETE FROM task_tombstones tombstone USING task_viewers(NEW) viewer
      WHERE tombstone.task_id = NEW.id AND (tombstone.project_id IS NULL OR tombstone.user_id IS NOT NULL)
        AND (tombstone.project_id, tombstone.user_id) IS NOT DISTINCT FROM (viewer.project_id, viewer.user_id);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION write_tombstones();

-- Events ------------------------------------------------------------------------------------------------------------
-- Whoever changes a task, what belongs to it, a project or its members calls these in the same transaction, whose beginning names the
-- actor; changes by jobs have none.

-- For record_event(): the actor of the transaction; null in jobs.
CREATE OR REPLACE FUNCTION current_actor() RETURNS uuid LANGUAGE sql STABLE
RETURN nullif(current_setting('taskwright.actor', true), '')::uuid;

-- For events and what is made of them: a UUIDv7 with a counter after the time (RFC 9562, section 6.2): events of one millisecond sort
-- in the order of their ordinals.
CREATE OR REPLACE FUNCTION event_id(moment timestamptz, counter bigint) RETURNS uuid LANGUAGE sql VOLATILE
RETURN encode(
  int8send(((extract(epoch FROM moment) * 1000)::bigint << 16) | x'7000'::bigint | ((counter >> 14) & 4095))
    || substr(int4send((x'8000'::bigint | (counter & 16383))::int), 3) || substr(uuid_send(gen_random_uuid()), 11),
  'hex')::uuid;

-- `related` is the comment, attachment, tag, other task or member of the event. Of two changes of a row, the second may come from the
-- older transaction, if that waited for the row. An event is therefore ordered by its own transaction or the last one that has ended,
-- whichever is later. Readers miss nothing: the horizon passes the event only after both transactions have ended.
CREATE OR REPLACE FUNCTION record_event(
  kind text, task uuid, project uuid, owner uuid, assignee uuid, related uuid, old_values jsonb, new_values jsonb
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM record_event_for(NULL, kind, task, project, owner, assignee, related, old_values, new_values);
END $$;

-- The same, for one user alone unless `recipient` is null. Returns the id of the event.
CREATE OR REPLACE FUNCTION record_event_for(
  recipient uuid, kind text, task uuid, project uuid, owner uuid, assignee uuid, related uuid, old_values jsonb, new_values jsonb
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment timestamptz := date_trunc('milliseconds', clock_timestamp());
  counter bigint := nextval('events_ordinal_seq');
  ended xid8 := (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8;
  identifier uuid := event_id(moment, counter);
BEGIN
  INSERT INTO events (changed_in, ordinal, id, type, actor_id, task_id, project_id, owner_id, assignee_id, resource_id,
      recipient_id, before, after, created_at)
    VALUES (greatest(pg_current_xact_id(), ended), counter, identifier, kind, current_actor(), task, project,
      owner, assignee, related, recipient, old_values, new_values, moment);
  RETURN identifier;
END $$;

-- Records an event of something that belongs to a task; nothing if the task itself is being deleted.
CREATE OR REPLACE FUNCTION record_event_of_task(kind text, target uuid, related uuid, old_values jsonb, new_values jsonb)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM record_event(kind, id, project_id, owner_id, assignee_id, related, old_values, new_values)
  FROM tasks WHERE id = target;
END $$;

-- For end_relation() and lists of relations: the kind of a relation from the view of the other task.
CREATE OR REPLACE FUNCTION inverse_relation_kind(kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE kind WHEN 'blocks' THEN 'blocked_by' WHEN 'duplicates' THEN 'duplicated_by' ELSE kind END
$$;

-- A cascade, of a task that is purged or deleted from the trash, ends its relations: what the removal of a relation does for both
-- tasks is done for the one that is left.
CREATE OR REPLACE FUNCTION end_relation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.kind = 'blocks' THEN
    UPDATE tasks SET changed_in = pg_current_xact_id(), blocker_count = blocker_count - 1 WHERE id = OLD.other_task_id;
  END IF;
  PERFORM record_event_of_task('task.unrelated', OLD.task_id, OLD.other_task_id, jsonb_build_object('kind', OLD.kind), '{}');
  PERFORM record_event_of_task('task.unrelated', OLD.other_task_id, OLD.task_id,
    jsonb_build_object('kind', inverse_relation_kind(OLD.kind)), '{}');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_relations_cascaded AFTER DELETE ON task_relations FOR EACH ROW
  WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION end_relation();


-- Events of what is deleted permanently stay, without values.
CREATE OR REPLACE FUNCTION clear_task_event_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE events SET before = '{}', after = '{}' WHERE task_id IN (SELECT id FROM removed);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION clear_project_event_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE events SET before = '{}', after = '{}' WHERE task_id IS NULL AND project_id IN (SELECT id FROM removed);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER projects_values_cleared AFTER DELETE ON projects
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION clear_project_event_values();

CREATE OR REPLACE TRIGGER tasks_values_cleared AFTER DELETE ON tasks
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION clear_task_event_values();

-- Viewers, and events of tasks ----------------------------------------------------------------------------------------
-- Generated from src/db/access/access-relations.ts by `npm run generate`.
-- The viewers of a task, one per row: the members of its project (user_id null), a user, and the administrators (both null).
-- A task in the trash has none.
CREATE OR REPLACE FUNCTION task_viewers(task tasks) RETURNS TABLE (project_id uuid, user_id uuid) LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT NULL::uuid, (task).owner_id::uuid WHERE (task).deleted_at IS NULL AND (task).project_id IS NULL
  UNION SELECT (task).project_id::uuid, (task).assignee_id::uuid WHERE (task).deleted_at IS NULL AND (task).assignee_id IS NOT NULL
  UNION SELECT (task).project_id::uuid, NULL::uuid WHERE (task).deleted_at IS NULL AND (task).project_id IS NOT NULL
  UNION SELECT NULL::uuid, NULL::uuid WHERE (task).deleted_at IS NULL AND true;
END;

CREATE OR REPLACE TRIGGER tasks_viewers_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.project_id, OLD.assignee_id, OLD.deleted_at) IS DISTINCT FROM (NEW.owner_id, NEW.project_id, NEW.assignee_id, NEW.deleted_at)) EXECUTE FUNCTION write_tombstones();

CREATE OR REPLACE TRIGGER tasks_tags_viewers_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.project_id, OLD.assignee_id, OLD.deleted_at) IS DISTINCT FROM (NEW.owner_id, NEW.project_id, NEW.assignee_id, NEW.deleted_at)) EXECUTE FUNCTION count_tags_of_task();

-- Whether a task is blocked by an open task that the viewer can see.
CREATE OR REPLACE FUNCTION is_blocked(blocked uuid, viewer uuid, administers boolean) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM task_relations relation JOIN tasks blocker ON blocker.id = relation.task_id
    WHERE relation.other_task_id = blocked AND relation.kind = 'blocks' AND blocker.status IN ('todo', 'in_progress')
      AND ("blocker"."deleted_at" is null and (("blocker"."owner_id" = viewer and "blocker"."project_id" is null) or (coalesce("blocker"."assignee_id" = viewer, false) and case
  when "blocker"."project_id" is null
  then not (array(select id from users where "users"."deleted_at" is not null) @> array["blocker"."owner_id"])
  else exists (select from projects where "projects"."id" = "blocker"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
  select from memberships membership
  where "membership"."user_id" = viewer and "membership"."project_id" = "blocker"."project_id"
    and true offset 0) or (administers and case
  when "blocker"."project_id" is null
  then not (array(select id from users where "users"."deleted_at" is not null) @> array["blocker"."owner_id"])
  else exists (select from projects where "projects"."id" = "blocker"."project_id" and "projects"."deleted_at" is null offset 0) end))));
END $$;
-- End of the generated part.

