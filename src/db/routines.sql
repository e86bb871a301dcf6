-- Revision 8
--
-- Functions and triggers, and the indexes that call these functions: everything that drizzle-kit cannot derive from
-- schema/tables.ts. The whole file is applied after the migrations whenever it has changed, so each statement can be repeated.
-- A release that changes the file raises the revision: an older version that starts meanwhile leaves newer routines alone.
--
-- Functions pass flags to triggers with set_config. A SET clause would require a superuser, because these parameters are not
-- declared.
--
-- PostgreSQL fires the triggers of a table in the order of their names, so a new name can change the order.

-- Search ------------------------------------------------------------------------------------------------------------
-- Text is folded and split into words here rather than by a text search configuration, whose parser depends on the
-- database's locale; domain/search.ts splits a query in the same way. Collations are explicit for the same reason.
-- Extensions (unaccent, pg_trgm) would have to be installed by a database administrator.

-- Removes case and accents: NFKD separates the combining marks, which are dropped; the rest is composed again.
CREATE OR REPLACE FUNCTION fold_text(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(
  lower(normalize(regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC) COLLATE "und-x-icu"),
  'ς', 'σ');

-- The searched part of a text: its first 8,192 characters, folded. NFKC can turn one character into 18, so the folded text
-- is cut as well. This bounds the time of a write and the size of the tsvector.
CREATE OR REPLACE FUNCTION searched_text(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN left(fold_text(left(value, 8192)), 8192);

-- The words of a folded text with their positions. Scripts without spaces between words (Chinese, Japanese, Korean, Thai,
-- Lao) are indexed as bigrams, pairs of adjacent characters; the last character of a run stands alone. Lateral joins keep the
-- order of the words. PL/pgSQL keeps the plan for the session; an SQL function would be planned again for each row.
CREATE OR REPLACE FUNCTION words_of(value text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN (WITH runs AS MATERIALIZED (
    SELECT run, run ~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]' AS is_unspaced
    FROM string_to_table(
      regexp_replace(
        regexp_replace(value COLLATE "und-x-icu", '[^[:alnum:]]+', ' ', 'g'),
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

-- The bigrams of a text. An index on them finds any part of a title or name.
CREATE OR REPLACE FUNCTION bigrams_of(value text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(DISTINCT a || b), '{}')
  FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
  WHERE b IS NOT NULL;
END;

-- The same bigrams as lexemes. The prefix U+0001 keeps them apart from words.
CREATE OR REPLACE FUNCTION bigram_lexemes(value text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN (
    SELECT array_to_tsvector(coalesce(array_agg(U&'\0001' || a || b), '{}'))
    FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
    WHERE b IS NOT NULL);
END $$;

-- A trigger rather than generated columns, which the trigger tasks_touch could not compare.
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
CREATE INDEX IF NOT EXISTS tags_name_bigrams ON tags USING gin (bigrams_of(fold_text(name)));
CREATE INDEX IF NOT EXISTS projects_name_bigrams ON projects USING gin (bigrams_of(name_folded));
CREATE INDEX IF NOT EXISTS teams_name_bigrams ON teams USING gin (bigrams_of(name_folded));

CREATE OR REPLACE FUNCTION fold_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.name_folded := fold_text(NEW.name);
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER projects_name_folded BEFORE INSERT OR UPDATE OF name ON projects
  FOR EACH ROW EXECUTE FUNCTION fold_name();

CREATE OR REPLACE TRIGGER teams_name_folded BEFORE INSERT OR UPDATE OF name ON teams
  FOR EACH ROW EXECUTE FUNCTION fold_name();

-- Versions ----------------------------------------------------------------------------------------------------------
-- Every change increments the version, whichever statement makes it, so that an ETag never stands for two representations.

CREATE OR REPLACE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  NEW.updated_at := clock_timestamp();
  RETURN NEW;
END $$;

-- The password hash and the attachment total are not part of any representation.
CREATE OR REPLACE TRIGGER users_touch BEFORE UPDATE ON users FOR EACH ROW
  WHEN ((OLD.username, OLD.email, OLD.display_name, OLD.role, OLD.time_zone, OLD.is_disabled, OLD.attachment_quota_bytes, OLD.task_quota)
    IS DISTINCT FROM (NEW.username, NEW.email, NEW.display_name, NEW.role, NEW.time_zone, NEW.is_disabled, NEW.attachment_quota_bytes, NEW.task_quota))
  EXECUTE FUNCTION touch();

CREATE OR REPLACE TRIGGER projects_touch BEFORE UPDATE ON projects FOR EACH ROW
  WHEN ((OLD.name, OLD.description, OLD.color, OLD.archived_at, OLD.deleted_at)
    IS DISTINCT FROM (NEW.name, NEW.description, NEW.color, NEW.archived_at, NEW.deleted_at)) EXECUTE FUNCTION touch();

CREATE OR REPLACE TRIGGER teams_touch BEFORE UPDATE ON teams FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();

-- For tables without `updated_at`.
CREATE OR REPLACE FUNCTION increment_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER team_members_touch BEFORE UPDATE ON team_members FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION increment_version();

CREATE OR REPLACE TRIGGER project_members_touch BEFORE UPDATE ON project_members FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION increment_version();

CREATE OR REPLACE TRIGGER project_teams_touch BEFORE UPDATE ON project_teams FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION increment_version();

-- `digest_due_at` is not part of the representation.
CREATE OR REPLACE TRIGGER notification_settings_touch BEFORE UPDATE ON notification_settings FOR EACH ROW
  WHEN (OLD.mail_digest <> NEW.mail_digest) EXECUTE FUNCTION increment_version();

CREATE OR REPLACE TRIGGER sections_touch BEFORE UPDATE ON sections FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();

-- Sets `due_at` of webhooks to that of their next pending delivery. Locks the webhooks first, so that of two concurrent
-- transactions, the second sees the deliveries that the first has added.
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

-- Columns that only the sender uses are not part of the representation.
CREATE OR REPLACE TRIGGER webhooks_touch BEFORE UPDATE ON webhooks FOR EACH ROW
  WHEN ((OLD.url, OLD.description, OLD.event_types, OLD.secret, OLD.previous_secret_until, OLD.is_enabled, OLD.disabled_reason, OLD.failing_since)
    IS DISTINCT FROM (NEW.url, NEW.description, NEW.event_types, NEW.secret, NEW.previous_secret_until, NEW.is_enabled, NEW.disabled_reason, NEW.failing_since))
  EXECUTE FUNCTION touch();

-- Also records the transaction, which orders the change feed. A statement that sets changed_in itself changes nothing that
-- clients see; a statement that makes several changes sets the version itself. The times of a change are never before the
-- creation, even if the clock is set back.
CREATE OR REPLACE FUNCTION touch_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.changed_in = OLD.changed_in THEN
    NEW.version := greatest(NEW.version, OLD.version + 1);
    NEW.updated_at := greatest(clock_timestamp(), NEW.created_at);
    IF NEW.completed_at < NEW.created_at THEN
      NEW.completed_at := NEW.created_at;
    END IF;
  END IF;
  NEW.changed_in := pg_current_xact_id();
  IF NEW.project_id IS DISTINCT FROM OLD.project_id THEN
    NEW.placed_at := clock_timestamp();
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER tasks_touch BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch_task();

-- Removing a tag from a task changes the task, even if the tag or its owner was deleted. A statement that adds a tag increments
-- the version itself, because a new task has version 1 with its tags.
CREATE OR REPLACE FUNCTION touch_untagged_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET version = version + 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_removed AFTER DELETE ON task_tags FOR EACH ROW
  WHEN (current_setting('taskwright.replaces_tags', true) IS DISTINCT FROM 'on')
  EXECUTE FUNCTION touch_untagged_task();

-- The tags of a task. Volatile, so that it sees what was committed while the calling statement waited for the task.
CREATE OR REPLACE FUNCTION tags_of_task(target uuid) RETURNS uuid[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (SELECT coalesce(array_agg(tag_id ORDER BY tag_id), '{}') FROM task_tags WHERE task_id = target);
END $$;

-- Replaces the tags of tasks that the calling statement has locked: an array of {task_id, tag_ids}. Volatile, to see tags that
-- were committed while it waited for the locks. The calling statement updates the tasks afterwards, so that tag_counts is
-- corrected for the viewers before the change; it also increments the version, so the flag keeps the trigger from doing it.
CREATE OR REPLACE FUNCTION replace_task_tags(replacements jsonb) RETURNS void LANGUAGE plpgsql VOLATILE STRICT AS $$
BEGIN
  PERFORM set_config('taskwright.replaces_tags', 'on', true);
  DELETE FROM task_tags link USING jsonb_to_recordset(replacements) AS task (task_id uuid, tag_ids uuid[])
  WHERE link.task_id = task.task_id AND link.tag_id <> ALL (task.tag_ids);
  INSERT INTO task_tags (task_id, tag_id)
    SELECT task.task_id, tag_id
    FROM jsonb_to_recordset(replacements) AS task (task_id uuid, tag_ids uuid[]), unnest(task.tag_ids) tag_id
    ON CONFLICT DO NOTHING;
  PERFORM set_config('taskwright.replaces_tags', '', true);
END $$;

-- Time zones --------------------------------------------------------------------------------------------------------
-- The service checks names against its own copy of the IANA database, which can be newer than the server's.

CREATE OR REPLACE FUNCTION check_time_zone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM now() AT TIME ZONE NEW.time_zone;
  RETURN NULL;
EXCEPTION WHEN invalid_parameter_value THEN
  RAISE check_violation USING CONSTRAINT = 'users_time_zone_known', TABLE = 'users';
END $$;

CREATE OR REPLACE TRIGGER users_time_zone_added AFTER INSERT ON users FOR EACH ROW
  WHEN (NEW.time_zone <> 'UTC') EXECUTE FUNCTION check_time_zone();

CREATE OR REPLACE TRIGGER users_time_zone_changed AFTER UPDATE OF time_zone ON users FOR EACH ROW
  WHEN (OLD.time_zone <> NEW.time_zone) EXECUTE FUNCTION check_time_zone();

-- The calendar day at an instant; in UTC if this server does not know the zone, as after a restore on an older server.
CREATE OR REPLACE FUNCTION day_in_zone(instant timestamptz, zone text) RETURNS date LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (instant AT TIME ZONE zone)::date;
EXCEPTION WHEN invalid_parameter_value THEN
  RETURN (instant AT TIME ZONE 'UTC')::date;
END $$;

-- Deleted users -----------------------------------------------------------------------------------------------------
-- The row of a deleted user stays until its dependent rows are removed, so the foreign keys alone would still accept it.
-- These triggers fire after the checks of the foreign keys, which wait for a concurrent deletion.

CREATE OR REPLACE FUNCTION refuse_deleted_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' OR NEW.owner_id <> OLD.owner_id THEN
    IF EXISTS (SELECT FROM users WHERE id = NEW.owner_id AND deleted_at IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'tasks_owner_id_users_id_fk';
    END IF;
  END IF;
  -- Not asked for a null assignee: PostgreSQL would plan the condition again for each task.
  IF NEW.assignee_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.assignee_id IS DISTINCT FROM OLD.assignee_id) THEN
    IF EXISTS (SELECT FROM users WHERE id = NEW.assignee_id AND deleted_at IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'tasks_assignee_id_users_id_fk';
    END IF;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_given AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION refuse_deleted_user();

CREATE OR REPLACE TRIGGER tasks_regiven AFTER UPDATE OF owner_id, assignee_id ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.assignee_id) IS DISTINCT FROM (NEW.owner_id, NEW.assignee_id))
  EXECUTE FUNCTION refuse_deleted_user();

-- The same for other rows of a user: the column and the foreign key are the arguments.
CREATE OR REPLACE FUNCTION refuse_row_of_deleted_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM users WHERE id = (to_jsonb(NEW) ->> TG_ARGV[0])::uuid AND deleted_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_ARGV[1];
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER api_tokens_given AFTER INSERT ON api_tokens
  FOR EACH ROW EXECUTE FUNCTION refuse_row_of_deleted_user('user_id', 'api_tokens_user_id_users_id_fk');

CREATE OR REPLACE TRIGGER tags_given AFTER INSERT ON tags
  FOR EACH ROW EXECUTE FUNCTION refuse_row_of_deleted_user('owner_id', 'tags_owner_id_users_id_fk');

-- Deleted projects --------------------------------------------------------------------------------------------------
-- Tasks and tags cannot be added to a project in the trash. Like the triggers above, these fire after the checks of the foreign
-- keys, which wait for a concurrent move to the trash (trash_or_restore_project).

CREATE OR REPLACE FUNCTION refuse_trashed_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM projects WHERE id = NEW.project_id AND deleted_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_ARGV[0];
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_placed AFTER INSERT ON tasks FOR EACH ROW
  WHEN (NEW.project_id IS NOT NULL) EXECUTE FUNCTION refuse_trashed_project('tasks_project_id_projects_id_fk');

CREATE OR REPLACE TRIGGER tasks_moved AFTER UPDATE OF project_id ON tasks FOR EACH ROW
  WHEN (NEW.project_id <> OLD.project_id OR OLD.project_id IS NULL AND NEW.project_id IS NOT NULL)
  EXECUTE FUNCTION refuse_trashed_project('tasks_project_id_projects_id_fk');

CREATE OR REPLACE TRIGGER tags_placed AFTER INSERT ON tags FOR EACH ROW
  WHEN (NEW.project_id IS NOT NULL) EXECUTE FUNCTION refuse_trashed_project('tags_project_id_projects_id_fk');

-- Membership --------------------------------------------------------------------------------------------------------
-- `memberships` stores who has access to a project. Every change of a member, a team or a project recomputes it under the lock
-- of the project, so that concurrent changes see each other. Locks are taken in the order: teams, projects. A statement
-- that inserts a row that references a project locks the project first, because its foreign key would share that lock.

-- The roles granted to members and to members of teams. Includes projects in the trash.
CREATE OR REPLACE VIEW project_grants AS
  SELECT project_id, user_id, role FROM project_members
  UNION ALL SELECT project.project_id, member.user_id, project.role
  FROM project_teams project JOIN team_members member ON member.team_id = project.team_id;

-- Each role includes the roles of a lower rank.
CREATE OR REPLACE FUNCTION role_rank(role text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN array_position(ARRAY['viewer', 'commenter', 'editor', 'manager'], role);

-- Computes the memberships of projects, of all users or of those in `whose`. Volatile, so that each statement sees what was
-- committed while it waited for the locks.
CREATE OR REPLACE FUNCTION compute_memberships(which uuid[], whose uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  -- FOR UPDATE rather than FOR NO KEY UPDATE waits for tasks that are being added: members who leave may have seen them.
  PERFORM FROM projects WHERE id = ANY (which) ORDER BY id FOR UPDATE;
  WITH granted AS (
    SELECT grants.project_id, grants.user_id, (array_agg(grants.role ORDER BY role_rank(grants.role) DESC))[1] AS role
    FROM project_grants grants
      JOIN projects project ON project.id = grants.project_id AND project.deleted_at IS NULL
      JOIN users member ON member.id = grants.user_id AND member.deleted_at IS NULL
    WHERE grants.project_id = ANY (which) AND (whose IS NULL OR grants.user_id = ANY (whose))
    GROUP BY grants.project_id, grants.user_id
  ), ended AS (
    DELETE FROM memberships membership
    WHERE project_id = ANY (which) AND (whose IS NULL OR user_id = ANY (whose))
      AND NOT EXISTS (
        SELECT FROM granted
        WHERE granted.project_id = membership.project_id AND granted.user_id = membership.user_id)
    RETURNING project_id, user_id
  ), recorded AS (
    INSERT INTO membership_tombstones (project_id, user_id, left_in, created_at)
      SELECT project_id, user_id, pg_current_xact_id(), clock_timestamp() FROM ended
      ON CONFLICT ON CONSTRAINT membership_tombstones_once
        DO UPDATE SET left_in = EXCLUDED.left_in, created_at = EXCLUDED.created_at
  )
  INSERT INTO memberships AS membership (project_id, user_id, role)
    SELECT project_id, user_id, role FROM granted ORDER BY project_id, user_id
    ON CONFLICT (user_id, project_id) DO UPDATE SET role = EXCLUDED.role WHERE membership.role <> EXCLUDED.role;
  IF EXISTS (
    SELECT FROM projects project
    WHERE id = ANY (which) AND deleted_at IS NULL
      AND NOT EXISTS (SELECT FROM memberships WHERE project_id = project.id AND role = 'manager'))
  THEN
    RAISE check_violation USING CONSTRAINT = 'projects_have_manager', TABLE = 'projects';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION compute_memberships_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM compute_memberships(ARRAY[coalesce(NEW.project_id, OLD.project_id)], ARRAY[coalesce(NEW.user_id, OLD.user_id)]);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER project_members_granted AFTER INSERT OR DELETE OR UPDATE OF role ON project_members
  FOR EACH ROW EXECUTE FUNCTION compute_memberships_of_member();

CREATE OR REPLACE FUNCTION compute_memberships_of_project_team() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM teams WHERE id = coalesce(NEW.team_id, OLD.team_id) FOR NO KEY UPDATE;
  PERFORM compute_memberships(ARRAY[coalesce(NEW.project_id, OLD.project_id)], NULL);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER project_teams_granted AFTER INSERT OR DELETE OR UPDATE OF role ON project_teams
  FOR EACH ROW EXECUTE FUNCTION compute_memberships_of_project_team();

CREATE OR REPLACE FUNCTION compute_memberships_of_team_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM teams WHERE id = coalesce(NEW.team_id, OLD.team_id) FOR NO KEY UPDATE;
  PERFORM compute_memberships(
    ARRAY(SELECT project_id FROM project_teams WHERE team_id = coalesce(NEW.team_id, OLD.team_id)),
    ARRAY[coalesce(NEW.user_id, OLD.user_id)]);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER team_members_granted AFTER INSERT OR DELETE ON team_members
  FOR EACH ROW EXECUTE FUNCTION compute_memberships_of_team_member();

-- Every team has a manager.
CREATE OR REPLACE FUNCTION check_team_managers(which uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF EXISTS (
    SELECT FROM teams team
    WHERE id = ANY (which) AND NOT EXISTS (
      SELECT FROM team_members member JOIN users ON users.id = member.user_id AND users.deleted_at IS NULL
      WHERE member.team_id = team.id AND member.role = 'manager'))
  THEN
    RAISE check_violation USING CONSTRAINT = 'teams_have_manager', TABLE = 'teams';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION check_managers_of_team() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM teams WHERE id = OLD.team_id FOR NO KEY UPDATE;
  PERFORM check_team_managers(ARRAY[OLD.team_id]);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER team_members_managed AFTER DELETE OR UPDATE OF role ON team_members FOR EACH ROW
  WHEN (OLD.role = 'manager') EXECUTE FUNCTION check_managers_of_team();

-- Deletes the projects, also in the trash, and the teams to which only the deleted user has access. An account cannot be deleted
-- while others have access to a project or team that nobody else manages. Projects in the trash are locked as well, because
-- restoring a project computes memberships.
CREATE OR REPLACE FUNCTION end_memberships_of_user() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  granted uuid[] := ARRAY(SELECT DISTINCT project_id FROM project_grants WHERE user_id = NEW.id);
  managed uuid[] := ARRAY(SELECT team_id FROM team_members WHERE user_id = NEW.id AND role = 'manager');
BEGIN
  PERFORM FROM teams WHERE id = ANY (managed) ORDER BY id FOR UPDATE;
  PERFORM FROM projects WHERE id = ANY (granted) ORDER BY id FOR UPDATE;
  UPDATE projects project SET deleted_at = coalesce(deleted_at, now()), purged_at = now()
  WHERE id = ANY (granted) AND purged_at IS NULL
    AND NOT EXISTS (
      SELECT FROM project_grants other JOIN users member ON member.id = other.user_id AND member.deleted_at IS NULL
      WHERE other.project_id = project.id);
  PERFORM compute_memberships(granted, ARRAY[NEW.id]);
  DELETE FROM teams team
  WHERE id = ANY (managed) AND NOT EXISTS (
    SELECT FROM team_members member JOIN users ON users.id = member.user_id AND users.deleted_at IS NULL
    WHERE member.team_id = team.id);
  PERFORM check_team_managers(managed);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER users_memberships_ended AFTER UPDATE OF deleted_at ON users FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION end_memberships_of_user();

-- A project that is restored is delivered again to everybody by the change feed.
CREATE OR REPLACE FUNCTION set_visible_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.visible_in := pg_current_xact_id();
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER projects_shown BEFORE UPDATE OF deleted_at ON projects FOR EACH ROW
  WHEN (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL) EXECUTE FUNCTION set_visible_in();

-- Moving a project to the trash or restoring it does not change its tasks: members see them depending on their membership. The
-- other viewers are administrators, and assignees who are not members.
CREATE OR REPLACE FUNCTION trash_or_restore_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('taskwright.moves_project', 'on', true);
  -- Waits for concurrent assignments of tasks (write_tombstones).
  PERFORM FROM projects WHERE id = NEW.id FOR UPDATE;
  IF NEW.deleted_at IS NOT NULL THEN
    INSERT INTO task_tombstones (task_id, project_id, user_id, changed_in, placed_at)
      SELECT id, project_id, assignee_id, pg_current_xact_id(), coalesce(placed_at, created_at) FROM tasks task
      WHERE project_id = NEW.id AND deleted_at IS NULL AND assignee_id IS NOT NULL
        AND NOT EXISTS (SELECT FROM memberships WHERE project_id = NEW.id AND user_id = task.assignee_id)
      ON CONFLICT ON CONSTRAINT task_tombstones_once
        DO UPDATE SET changed_in = EXCLUDED.changed_in, created_at = EXCLUDED.created_at;
    INSERT INTO membership_tombstones (project_id, user_id, left_in, created_at)
      VALUES (NEW.id, NULL, pg_current_xact_id(), clock_timestamp())
      ON CONFLICT ON CONSTRAINT membership_tombstones_once
        DO UPDATE SET left_in = EXCLUDED.left_in, created_at = EXCLUDED.created_at;
  END IF;
  PERFORM compute_memberships(ARRAY[NEW.id], NULL);
  IF NEW.deleted_at IS NULL THEN
    -- Setting changed_in changes nothing that a client sees.
    UPDATE tasks task SET changed_in = pg_current_xact_id()
    WHERE project_id = NEW.id AND deleted_at IS NULL AND assignee_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM memberships WHERE project_id = NEW.id AND user_id = task.assignee_id);
  END IF;
  PERFORM set_config('taskwright.moves_project', '', true);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER projects_moved AFTER UPDATE OF deleted_at ON projects FOR EACH ROW
  WHEN ((OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)) EXECUTE FUNCTION trash_or_restore_project();

-- Sections ----------------------------------------------------------------------------------------------------------
-- Fires after the section is locked, so that it sees every task that was added to the section.
CREATE OR REPLACE FUNCTION clear_section() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET section_id = NULL WHERE project_id = OLD.project_id AND section_id = OLD.id;
  RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER sections_removed BEFORE DELETE ON sections FOR EACH ROW EXECUTE FUNCTION clear_section();

-- Open tasks -----------------------------------------------------------------------------------------------------------
-- The number of a project's tasks that are neither closed nor in the trash.

CREATE OR REPLACE FUNCTION is_open(task tasks) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN (task).deleted_at IS NULL AND (task).status IN ('todo', 'in_progress');

CREATE OR REPLACE FUNCTION count_open_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO project_counts AS counts (project_id, open_tasks)
    SELECT project_id, sum(change) FROM (
      SELECT OLD.project_id, -1 AS change WHERE TG_OP <> 'INSERT' AND is_open(OLD)
      UNION ALL SELECT NEW.project_id, 1 WHERE TG_OP <> 'DELETE' AND is_open(NEW)
    ) changes
    -- A project that is being deleted with its tasks has no row to count in.
    WHERE EXISTS (SELECT FROM projects WHERE id = project_id)
    GROUP BY project_id HAVING sum(change) <> 0 ORDER BY project_id
    ON CONFLICT (project_id) DO UPDATE SET open_tasks = counts.open_tasks + EXCLUDED.open_tasks;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_open_added AFTER INSERT ON tasks FOR EACH ROW
  WHEN (NEW.project_id IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

CREATE OR REPLACE TRIGGER tasks_open_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.project_id, OLD.status, OLD.deleted_at) IS DISTINCT FROM (NEW.project_id, NEW.status, NEW.deleted_at)
    AND coalesce(OLD.project_id, NEW.project_id) IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

CREATE OR REPLACE TRIGGER tasks_open_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.project_id IS NOT NULL) EXECUTE FUNCTION count_open_tasks();

-- Blocked tasks ----------------------------------------------------------------------------------------------------------
-- Whether a task is blocked depends on the viewer (`is_blocked`), so it does not affect the version. Setting changed_in makes
-- the change feed deliver the task again.

CREATE OR REPLACE FUNCTION count_blockers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  relation task_relations := coalesce(NEW, OLD);
BEGIN
  UPDATE tasks SET changed_in = pg_current_xact_id(), blocker_count = blocker_count + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END
  WHERE id = relation.other_task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_relations_added AFTER INSERT ON task_relations FOR EACH ROW
  WHEN (NEW.kind = 'blocks') EXECUTE FUNCTION count_blockers();

CREATE OR REPLACE TRIGGER task_relations_removed AFTER DELETE ON task_relations FOR EACH ROW
  WHEN (OLD.kind = 'blocks') EXECUTE FUNCTION count_blockers();

CREATE OR REPLACE FUNCTION redeliver_blocked_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET changed_in = pg_current_xact_id() WHERE id IN (
    SELECT other_task_id FROM task_relations WHERE task_id = NEW.id AND kind = 'blocks');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_unblocking AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.status IN ('todo', 'in_progress'), OLD.deleted_at IS NULL) IS DISTINCT FROM (NEW.status IN ('todo', 'in_progress'), NEW.deleted_at IS NULL))
  EXECUTE FUNCTION redeliver_blocked_tasks();

-- The tasks from `blocked` to `blocker`, each of which blocks the next; null if there is no such path. If there is one, a relation
-- between the two would close a cycle. The lock serializes the checks, because two concurrent relations can close a cycle together.
-- Everybody waits for it, so the search ends at the contract's limit. `previous` has a task that blocks each task that was reached.
CREATE OR REPLACE FUNCTION blocking_path(blocker uuid, blocked uuid) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  previous jsonb := jsonb_build_object(blocked, NULL);
  found jsonb;
  latest uuid[] := ARRAY[blocked];
  reached int := 0;
  path uuid[] := ARRAY[blocker];
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('task_relations'));
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
      RAISE check_violation USING CONSTRAINT = 'task_relations_bounded', TABLE = 'task_relations';
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

-- Locks all tasks that the statement may read or write: `targets` and their parents, whose counts change; `parents` and the
-- tasks above them; and the subtasks of `roots`. Locks in the order of ids, and repeats the search until no other transaction has
-- changed these trees in the meantime. The generic plan is forced, because PostgreSQL would plan the query at each call. OFFSET 0
-- forces an index lookup for each task: if a few tasks have most of the subtasks, a join would read the subtasks of all tasks.
CREATE OR REPLACE FUNCTION lock_trees(targets uuid[], parents uuid[], roots uuid[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wanted uuid[];
  locked uuid[] := '{}';
BEGIN
  -- Most writes do not involve trees.
  IF targets || parents || roots = '{}' THEN
    RETURN true;
  END IF;
  LOOP
    WITH RECURSIVE above AS (
      SELECT id, parent_id FROM tasks WHERE id = ANY (parents)
      UNION SELECT task.id, task.parent_id
      FROM above, LATERAL (SELECT id, parent_id FROM tasks WHERE id = above.parent_id OFFSET 0) task
    ), below AS (
      SELECT id FROM tasks WHERE parent_id = ANY (roots) AND deleted_at IS NULL
      UNION SELECT task.id
      FROM below, LATERAL (SELECT id FROM tasks WHERE parent_id = below.id AND deleted_at IS NULL OFFSET 0) task
    )
    SELECT array_agg(id) INTO wanted FROM (
      SELECT unnest(targets) AS id
      UNION SELECT parent_id FROM tasks WHERE id = ANY (targets) AND parent_id IS NOT NULL
      UNION SELECT id FROM above
      UNION (SELECT id FROM below LIMIT 501)
      EXCEPT SELECT unnest(locked)
    ) tree;
    EXIT WHEN wanted IS NULL;
    PERFORM FROM tasks WHERE id = ANY (wanted) ORDER BY id FOR NO KEY UPDATE;
    locked := locked || wanted;
  END LOOP;
  RETURN true;
END $$;

-- The reason why a task, with its subtasks, cannot become a subtask of another task; null if it can. A tree has at most 8 levels.
-- Volatile, to read the trees in the state after they were locked.
CREATE OR REPLACE FUNCTION parent_refusal(moved uuid, parent uuid) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  levels int := 0;
  above uuid := parent;
  below uuid[] := ARRAY[moved];
  trashed_at timestamptz := (SELECT deleted_at FROM tasks WHERE id = moved);
BEGIN
  WHILE above IS NOT NULL AND levels <= 8 LOOP
    IF above = moved THEN
      RETURN 'parent_cycle';
    END IF;
    levels := levels + 1;
    above := (SELECT parent_id FROM tasks WHERE id = above);
  END LOOP;
  WHILE cardinality(below) > 0 AND levels <= 8 LOOP
    levels := levels + 1;
    below := ARRAY(SELECT id FROM tasks WHERE parent_id = ANY (below) AND deleted_at IS NOT DISTINCT FROM trashed_at);
  END LOOP;
  RETURN CASE WHEN levels > 8 THEN 'parent_too_deep' END;
END $$;

-- Whether tasks have more than 500 subtasks in total, too many to move in one statement.
CREATE OR REPLACE FUNCTION have_too_many_subtasks(roots uuid[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (
    WITH RECURSIVE below AS (
      SELECT id FROM tasks WHERE parent_id = ANY (roots) AND deleted_at IS NULL
      UNION SELECT task.id
      FROM below, LATERAL (SELECT id FROM tasks WHERE parent_id = below.id AND deleted_at IS NULL OFFSET 0) task
    )
    SELECT count(*) > 500 FROM (SELECT FROM below LIMIT 501) taken);
END $$;

-- Each item of a batch is checked against the trees before the batch; this checks the result of all items.
CREATE OR REPLACE FUNCTION check_parent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF parent_refusal(NEW.id, NEW.parent_id) IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = 'tasks_parents_form_trees', TABLE = 'tasks';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_parent_changed AFTER UPDATE OF parent_id ON tasks FOR EACH ROW
  WHEN (NEW.parent_id IS DISTINCT FROM OLD.parent_id AND NEW.parent_id IS NOT NULL) EXECUTE FUNCTION check_parent();

-- Moves the subtasks with the task; the trigger fires again for their subtasks. The flag tells `count_subtasks` that no parent loses
-- a subtask.
CREATE OR REPLACE FUNCTION cascade_to_subtasks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  flag_before text := coalesce(current_setting('taskwright.cascades_to_subtasks', true), '');
BEGIN
  PERFORM set_config('taskwright.cascades_to_subtasks', 'on', true);
  UPDATE tasks SET
    deleted_at = NEW.deleted_at,
    project_id = NEW.project_id,
    section_id = CASE WHEN project_id IS NOT DISTINCT FROM NEW.project_id THEN section_id END,
    owner_id = CASE WHEN NEW.project_id IS NULL THEN NEW.owner_id ELSE owner_id END
  WHERE parent_id = NEW.id AND deleted_at IS NOT DISTINCT FROM OLD.deleted_at;
  PERFORM set_config('taskwright.cascades_to_subtasks', flag_before, true);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_subtasks_cascaded AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.deleted_at, OLD.project_id) IS DISTINCT FROM (NEW.deleted_at, NEW.project_id)
    OR (NEW.project_id IS NULL AND NEW.owner_id <> OLD.owner_id)) EXECUTE FUNCTION cascade_to_subtasks();

-- Counts the subtasks in the same place as the task. In the trash, these are the subtasks that were deleted with it.
CREATE OR REPLACE FUNCTION count_subtasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks parent SET
    subtask_count = parent.subtask_count + change.tasks,
    open_subtask_count = parent.open_subtask_count + change.open_tasks
  FROM (
    SELECT counting.id, sum(subtask.sign) AS tasks, coalesce(sum(subtask.sign) FILTER (WHERE is_open), 0) AS open_tasks FROM (
      SELECT OLD.parent_id, OLD.deleted_at, OLD.status IN ('todo', 'in_progress') AS is_open, -1 AS sign WHERE TG_OP <> 'INSERT'
      UNION ALL SELECT NEW.parent_id, NEW.deleted_at, NEW.status IN ('todo', 'in_progress'), 1 WHERE TG_OP <> 'DELETE'
    ) subtask JOIN tasks counting ON counting.id = subtask.parent_id
    WHERE subtask.deleted_at IS NULL OR subtask.deleted_at = counting.deleted_at
    GROUP BY counting.id
  ) change
  WHERE parent.id = change.id AND (change.tasks, change.open_tasks) <> (0, 0);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_subtask_added AFTER INSERT ON tasks FOR EACH ROW
  WHEN (NEW.parent_id IS NOT NULL) EXECUTE FUNCTION count_subtasks();

CREATE OR REPLACE TRIGGER tasks_subtask_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.parent_id, OLD.status, OLD.deleted_at) IS DISTINCT FROM (NEW.parent_id, NEW.status, NEW.deleted_at)
    AND coalesce(OLD.parent_id, NEW.parent_id) IS NOT NULL
    AND current_setting('taskwright.cascades_to_subtasks', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION count_subtasks();

CREATE OR REPLACE TRIGGER tasks_subtask_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.parent_id IS NOT NULL) EXECUTE FUNCTION count_subtasks();

-- Attachments and files ---------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION count_added_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET attachment_count = attachment_count + 1 WHERE id = NEW.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_added AFTER INSERT ON attachments
  FOR EACH ROW EXECUTE FUNCTION count_added_attachment();

-- Deletes the row, decrements the count and queues the file for deletion in one transaction, whichever statement deletes.
CREATE OR REPLACE FUNCTION clean_up_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  UPDATE tasks SET attachment_count = attachment_count - 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_removed AFTER DELETE ON attachments
  FOR EACH ROW EXECUTE FUNCTION clean_up_attachment();

-- The total size of a user's attachments, whichever statement adds or removes them, cascades included. An attachment loses
-- its uploader only when that user is deleted, and the total with it.
CREATE OR REPLACE FUNCTION charge_added_attachments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE users SET attachment_bytes = attachment_bytes + charge.size
  FROM (SELECT uploaded_by, sum(size) AS size FROM added GROUP BY uploaded_by) charge
  WHERE users.id = charge.uploaded_by;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_charged AFTER INSERT ON attachments
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION charge_added_attachments();

-- Locks the uploaders in the order of their ids to prevent deadlocks between two deletions.
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

-- A thumbnail is deleted with its attachment. Its file is queued for deletion.
CREATE OR REPLACE FUNCTION queue_thumbnail_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER thumbnails_removed AFTER DELETE ON thumbnails
  FOR EACH ROW EXECUTE FUNCTION queue_thumbnail_deletion();

-- Queues the bytes of an unfinished upload for deletion, whichever statement deletes its row. The bytes of a finished upload
-- belong to the attachment.
CREATE OR REPLACE FUNCTION queue_upload_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key, is_unfinished) VALUES (OLD.storage_key, true);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER uploads_removed AFTER DELETE ON uploads FOR EACH ROW
  WHEN (OLD.attachment_id IS NULL) EXECUTE FUNCTION queue_upload_deletion();

-- Comments ----------------------------------------------------------------------------------------------------------

-- Once per statement, because deleting a task can delete any number of comments.
CREATE OR REPLACE FUNCTION count_comments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET comment_count = comment_count + CASE TG_OP WHEN 'INSERT' THEN change.comments ELSE -change.comments END
  FROM (SELECT task_id, count(*) AS comments FROM changed GROUP BY task_id) change
  WHERE id = change.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER comments_added AFTER INSERT ON comments
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_comments();

CREATE OR REPLACE TRIGGER comments_removed AFTER DELETE ON comments
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_comments();

-- Deleting the author also changes a comment.
CREATE OR REPLACE FUNCTION touch_comment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  IF NEW.body <> OLD.body THEN
    NEW.edited_at := greatest(clock_timestamp(), NEW.created_at);
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER comments_touch BEFORE UPDATE ON comments FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch_comment();

-- Email digests -----------------------------------------------------------------------------------------------------

-- When the next digest is due: in an hour, or when it is next 08:00 in the time zone; null if digests are off.
CREATE OR REPLACE FUNCTION next_digest_at(mail_digest text, time_zone text) RETURNS timestamptz LANGUAGE sql STABLE
RETURN CASE mail_digest
  WHEN 'hourly' THEN now() + interval '1 hour'
  WHEN 'daily' THEN
    (date_trunc('day', now() AT TIME ZONE time_zone + interval '16 hours') + interval '8 hours') AT TIME ZONE time_zone
END;

CREATE OR REPLACE FUNCTION reschedule_digest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE notification_settings SET digest_due_at = next_digest_at(mail_digest, NEW.time_zone)
  WHERE user_id = NEW.id AND mail_digest = 'daily';
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER users_digest_rescheduled AFTER UPDATE OF time_zone ON users FOR EACH ROW
  WHEN (OLD.time_zone <> NEW.time_zone) EXECUTE FUNCTION reschedule_digest();

-- Change feed -------------------------------------------------------------------------------------------------------

-- Writes a tombstone for each viewer who no longer sees the task, and removes it for each user who sees it again. The tombstone
-- of a project stays, for members who have left the project since.
CREATE OR REPLACE FUNCTION write_tombstones() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Waits for a concurrent move of the project to the trash, which reads its assignees (trash_or_restore_project).
  IF TG_OP = 'UPDATE' AND NEW.assignee_id IS NOT NULL THEN
    PERFORM FROM projects WHERE id = NEW.project_id FOR KEY SHARE;
  END IF;
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

-- Tag counts --------------------------------------------------------------------------------------------------------
-- The number of tasks with a tag, per viewer. The functions read the current state of the tasks: a statement that adds or removes
-- a tag, or changes who sees the task, has locked the task first.

CREATE OR REPLACE FUNCTION count_tags_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Creating tasks without tags fires this trigger as well.
  IF NOT EXISTS (SELECT FROM added) THEN
    RETURN NULL;
  END IF;
  INSERT INTO tag_counts AS counted (tag_id, project_id, user_id, tasks, created_at)
    SELECT added.tag_id, viewer.project_id, viewer.user_id, count(*), tag.created_at
    FROM added JOIN tasks task ON task.id = added.task_id JOIN tags tag ON tag.id = added.tag_id,
      LATERAL task_viewers(task) viewer
    GROUP BY added.tag_id, viewer.project_id, viewer.user_id, tag.created_at
    ORDER BY added.tag_id, viewer.project_id, viewer.user_id
    ON CONFLICT ON CONSTRAINT tag_counts_once DO UPDATE SET tasks = counted.tasks + EXCLUDED.tasks;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_counted AFTER INSERT ON task_tags
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_tags_added();

-- The links of a deleted task were subtracted when it was deleted.
CREATE OR REPLACE FUNCTION count_tags_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tag_counts counted SET tasks = counted.tasks - gone.tasks
  FROM (
    SELECT removed.tag_id, viewer.project_id, viewer.user_id, count(*) AS tasks
    FROM removed JOIN tasks task ON task.id = removed.task_id, LATERAL task_viewers(task) viewer
    GROUP BY removed.tag_id, viewer.project_id, viewer.user_id
    ORDER BY removed.tag_id, viewer.project_id, viewer.user_id
  ) gone
  WHERE counted.tag_id = gone.tag_id
    AND (counted.project_id, counted.user_id) IS NOT DISTINCT FROM (gone.project_id, gone.user_id);
  DELETE FROM tag_counts WHERE tasks = 0 AND tag_id IN (SELECT tag_id FROM removed);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_uncounted AFTER DELETE ON task_tags
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_tags_removed();

-- Fires when a task gets other viewers, is moved to or from the trash, or is deleted.
CREATE OR REPLACE FUNCTION count_tags_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM task_tags WHERE task_id = OLD.id) THEN
    RETURN OLD;
  END IF;
  UPDATE tag_counts counted SET tasks = counted.tasks - 1
  FROM (SELECT * FROM task_viewers(OLD) EXCEPT SELECT * FROM task_viewers(NEW) WHERE TG_OP = 'UPDATE') gone
  WHERE tag_id IN (SELECT tag_id FROM task_tags WHERE task_id = OLD.id)
    AND (counted.project_id, counted.user_id) IS NOT DISTINCT FROM (gone.project_id, gone.user_id);
  INSERT INTO tag_counts AS counted (tag_id, project_id, user_id, tasks, created_at)
    SELECT tag_id, added.project_id, added.user_id, 1, tag.created_at
    FROM task_tags JOIN tags tag ON tag.id = tag_id, (
      SELECT * FROM task_viewers(NEW) WHERE TG_OP = 'UPDATE' EXCEPT SELECT * FROM task_viewers(OLD)
    ) added
    WHERE task_id = OLD.id ORDER BY tag_id, added.project_id, added.user_id
    ON CONFLICT ON CONSTRAINT tag_counts_once DO UPDATE SET tasks = counted.tasks + 1;
  DELETE FROM tag_counts WHERE tasks = 0 AND tag_id IN (SELECT tag_id FROM task_tags WHERE task_id = OLD.id);
  RETURN OLD;
END $$;

-- Fires before the deletion, which removes the links.
CREATE OR REPLACE TRIGGER tasks_tags_removed BEFORE DELETE ON tasks FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION count_tags_of_task();

CREATE OR REPLACE FUNCTION delete_tag_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tag_counts WHERE tag_id = OLD.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tags_removed AFTER DELETE ON tags FOR EACH ROW EXECUTE FUNCTION delete_tag_counts();

-- Followers ---------------------------------------------------------------------------------------------------------
-- The creator, the owner, the assignee and the authors of comments follow a task, unless they have unfollowed it. Users to whom a
-- job transfers a task do not.

CREATE OR REPLACE FUNCTION follow_added_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_followers (task_id, user_id)
    SELECT added.id, person FROM added, LATERAL (
      SELECT current_actor() UNION SELECT added.owner_id UNION SELECT added.assignee_id
    ) people (person)
    WHERE person IS NOT NULL ORDER BY added.id, person
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_added_followed AFTER INSERT ON tasks
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION follow_added_tasks();

CREATE OR REPLACE FUNCTION follow_assigned_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_actor() IS NOT NULL THEN
    INSERT INTO task_followers (task_id, user_id)
      SELECT NEW.id, person FROM (
        SELECT NEW.owner_id WHERE NEW.owner_id <> OLD.owner_id
        UNION SELECT NEW.assignee_id WHERE NEW.assignee_id IS DISTINCT FROM OLD.assignee_id
      ) people (person)
      WHERE person IS NOT NULL ORDER BY person
      ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_given_followed AFTER UPDATE OF owner_id, assignee_id ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.assignee_id) IS DISTINCT FROM (NEW.owner_id, NEW.assignee_id))
  EXECUTE FUNCTION follow_assigned_task();

CREATE OR REPLACE FUNCTION follow_commented_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_followers (task_id, user_id) VALUES (NEW.task_id, NEW.author_id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER comments_followed AFTER INSERT ON comments FOR EACH ROW
  WHEN (NEW.author_id IS NOT NULL) EXECUTE FUNCTION follow_commented_task();

-- Events ------------------------------------------------------------------------------------------------------------
-- Each change of a task, its tags, attachments, relations or comments, of a project or of its members writes a row to `events`. The
-- statement sets the actor first (`done_by`); changes by jobs and cascades have no actor.

-- Returns 'done', the outcome of checks that pass (outcome.ts), and sets the actor of the events that triggers write later in the
-- transaction.
CREATE OR REPLACE FUNCTION done_by(actor uuid) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM set_config('taskwright.actor', actor::text, true);
  RETURN 'done';
END $$;

-- The actor that done_by has set; null in jobs and cascades.
CREATE OR REPLACE FUNCTION current_actor() RETURNS uuid LANGUAGE sql STABLE
RETURN nullif(current_setting('taskwright.actor', true), '')::uuid;

-- The times and dates of events, as the contract writes them.
CREATE OR REPLACE FUNCTION instant_text(value timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN to_char(value AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- A UUIDv7 with a counter after the time (RFC 9562, section 6.2): events of one millisecond sort in the order of their ordinals.
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
DECLARE
  moment timestamptz := date_trunc('milliseconds', clock_timestamp());
  counter bigint := nextval('events_ordinal_seq');
  ended xid8 := (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8;
BEGIN
  INSERT INTO events (changed_in, ordinal, id, type, actor_id, task_id, project_id, owner_id, assignee_id, resource_id,
      before, after, created_at)
    VALUES (greatest(pg_current_xact_id(), ended), counter, event_id(moment, counter), kind, current_actor(), task, project,
      owner, assignee, related, old_values, new_values, moment);
END $$;

-- Records an event of something that belongs to a task; nothing if the task itself is being deleted.
CREATE OR REPLACE FUNCTION record_event_of_task(kind text, target uuid, related uuid, old_values jsonb, new_values jsonb)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM record_event(kind, id, project_id, owner_id, assignee_id, related, old_values, new_values)
  FROM tasks WHERE id = target;
END $$;

CREATE OR REPLACE FUNCTION record_tag() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  link task_tags := coalesce(NEW, OLD);
  value jsonb := (SELECT jsonb_build_object('tag', jsonb_build_object('id', id, 'name', name)) FROM tags WHERE id = link.tag_id);
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_event_of_task('task.tagged', link.task_id, link.tag_id, '{}', value);
  ELSE
    PERFORM record_event_of_task('task.untagged', link.task_id, link.tag_id, coalesce(value, '{}'), '{}');
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_recorded AFTER INSERT OR DELETE ON task_tags FOR EACH ROW EXECUTE FUNCTION record_tag();

CREATE OR REPLACE FUNCTION record_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  attachment attachments := coalesce(NEW, OLD);
  value jsonb := jsonb_build_object('file_name', attachment.file_name, 'content_type', attachment.content_type, 'size', attachment.size);
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_event_of_task('attachment.created', attachment.task_id, attachment.id, '{}', value);
  ELSE
    PERFORM record_event_of_task('attachment.deleted', attachment.task_id, attachment.id, value, '{}');
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_recorded AFTER INSERT OR DELETE ON attachments
  FOR EACH ROW EXECUTE FUNCTION record_attachment();

-- The kind of a relation from the view of the other task.
CREATE OR REPLACE FUNCTION inverse_relation_kind(kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE kind WHEN 'blocks' THEN 'blocked_by' WHEN 'duplicates' THEN 'duplicated_by' ELSE kind END
$$;

-- A relation is recorded for both tasks.
CREATE OR REPLACE FUNCTION record_relation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  relation task_relations := coalesce(NEW, OLD);
  value jsonb := jsonb_build_object('kind', relation.kind);
  inverse jsonb := jsonb_build_object('kind', inverse_relation_kind(relation.kind));
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_event_of_task('task.related', relation.task_id, relation.other_task_id, '{}', value);
    PERFORM record_event_of_task('task.related', relation.other_task_id, relation.task_id, '{}', inverse);
  ELSE
    PERFORM record_event_of_task('task.unrelated', relation.task_id, relation.other_task_id, value, '{}');
    PERFORM record_event_of_task('task.unrelated', relation.other_task_id, relation.task_id, inverse, '{}');
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_relations_recorded AFTER INSERT OR DELETE ON task_relations
  FOR EACH ROW EXECUTE FUNCTION record_relation();

CREATE OR REPLACE FUNCTION record_comment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_event_of_task('comment.created', NEW.task_id, NEW.id, '{}', jsonb_build_object('body', NEW.body));
  ELSE
    PERFORM record_event_of_task(
      'comment.updated', NEW.task_id, NEW.id, jsonb_build_object('body', OLD.body), jsonb_build_object('body', NEW.body));
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER comments_created AFTER INSERT ON comments FOR EACH ROW EXECUTE FUNCTION record_comment();

CREATE OR REPLACE TRIGGER comments_edited AFTER UPDATE OF body ON comments FOR EACH ROW
  WHEN (OLD.body <> NEW.body) EXECUTE FUNCTION record_comment();

-- Removes the text of a deleted comment from the history of its task. For a deleted task, clear_task_event_values does.
CREATE OR REPLACE FUNCTION record_removed_comments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE events SET before = '{}', after = '{}'
  FROM removed JOIN tasks task ON task.id = removed.task_id
  WHERE events.task_id = removed.task_id AND resource_id = removed.id;
  PERFORM record_event_of_task('comment.deleted', task_id, id, '{}', '{}') FROM removed;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER comments_deleted AFTER DELETE ON comments
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION record_removed_comments();

CREATE OR REPLACE FUNCTION record_project() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  kind text := 'project.updated';
  old_values jsonb := '{}';
  new_values jsonb := jsonb_build_object('name', NEW.name, 'description', NEW.description, 'color', NEW.color);
BEGIN
  IF TG_OP = 'INSERT' THEN
    kind := 'project.created';
    new_values := jsonb_strip_nulls(new_values);
  ELSIF (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL) THEN
    kind := CASE WHEN NEW.deleted_at IS NULL THEN 'project.restored' ELSE 'project.deleted' END;
    new_values := '{}';
  ELSIF (OLD.archived_at IS NULL) <> (NEW.archived_at IS NULL) THEN
    kind := CASE WHEN NEW.archived_at IS NULL THEN 'project.unarchived' ELSE 'project.archived' END;
    new_values := '{}';
  ELSE
    SELECT jsonb_object_agg(old_value.key, old_value.value), jsonb_object_agg(new_value.key, new_value.value)
    INTO old_values, new_values
    FROM jsonb_each(jsonb_build_object('name', OLD.name, 'description', OLD.description, 'color', OLD.color)) old_value
      JOIN jsonb_each(new_values) new_value ON new_value.key = old_value.key AND new_value.value <> old_value.value;
  END IF;
  PERFORM record_event(kind, NULL, NEW.id, NULL, NULL, NULL, old_values, new_values);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER projects_created AFTER INSERT ON projects FOR EACH ROW EXECUTE FUNCTION record_project();

-- Projects that are deleted with their last member's account have no viewers, so they are not recorded.
CREATE OR REPLACE TRIGGER projects_recorded AFTER UPDATE ON projects FOR EACH ROW
  WHEN ((OLD.name, OLD.description, OLD.color, OLD.archived_at IS NULL, OLD.deleted_at IS NULL)
    IS DISTINCT FROM (NEW.name, NEW.description, NEW.color, NEW.archived_at IS NULL, NEW.deleted_at IS NULL)
    AND NEW.purged_at IS NULL) EXECUTE FUNCTION record_project();

-- Moving a project to the trash or restoring it ends or renews memberships; this is one event of the project.
CREATE OR REPLACE FUNCTION record_membership() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  membership memberships := coalesce(NEW, OLD);
BEGIN
  IF current_setting('taskwright.moves_project', true) = 'on' THEN
    RETURN NULL;
  END IF;
  PERFORM record_event(
    CASE TG_OP WHEN 'INSERT' THEN 'member.added' WHEN 'UPDATE' THEN 'member.changed' ELSE 'member.removed' END,
    NULL, project.id, NULL, NULL, membership.user_id,
    CASE TG_OP WHEN 'INSERT' THEN '{}' ELSE jsonb_build_object('role', OLD.role) END,
    CASE TG_OP WHEN 'DELETE' THEN '{}' ELSE jsonb_build_object('role', NEW.role) END)
  FROM projects project WHERE id = membership.project_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER memberships_recorded AFTER INSERT OR DELETE OR UPDATE OF role ON memberships
  FOR EACH ROW EXECUTE FUNCTION record_membership();

-- Records the deletion of a personal task with its owner's account, for the assignee. Tasks of a project are deleted with the
-- project.
CREATE OR REPLACE FUNCTION record_removed_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM record_event('task.deleted', OLD.id, NULL, OLD.owner_id, OLD.assignee_id, NULL, '{}', '{}');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_removed_recorded AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND OLD.project_id IS NULL AND OLD.assignee_id <> OLD.owner_id)
  EXECUTE FUNCTION record_removed_task();

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
-- Generated from src/db/access/access-relations.ts and src/db/event-values.ts by `npm run generate`.
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
      AND (blocker.deleted_at is null and ((blocker.owner_id = viewer and blocker.project_id is null) or (coalesce(blocker.assignee_id = viewer, false) and case when blocker.project_id is null
  then not (array(select id from users where users.deleted_at is not null) @> array[blocker.owner_id])
  else exists (select from projects where projects.id = blocker.project_id and projects.deleted_at is null offset 0) end) or exists (
    select from memberships membership
    where membership.user_id = viewer and membership.project_id = blocker.project_id and true offset 0) or (administers and case when blocker.project_id is null
  then not (array(select id from users where users.deleted_at is not null) @> array[blocker.owner_id])
  else exists (select from projects where projects.id = blocker.project_id and projects.deleted_at is null offset 0) end))));
END $$;

-- Record the fields of a task that clients set, before and after each change.
CREATE OR REPLACE FUNCTION record_added_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM record_event('task.created', NEW.id, NEW.project_id, NEW.owner_id, NEW.assignee_id, NULL, '{}', jsonb_strip_nulls(jsonb_build_object(
    'title', NEW.title,
    'description', NEW.description,
    'status', NEW.status,
    'priority', NEW.priority,
    'start_at', instant_text(NEW.start_at),
    'start_on', NEW.start_on,
    'due_at', instant_text(NEW.due_at),
    'due_on', NEW.due_on,
    'owner_id', NEW.owner_id,
    'assignee_id', NEW.assignee_id,
    'project_id', NEW.project_id,
    'section_id', NEW.section_id,
    'parent_id', NEW.parent_id,
    'position', NEW.position)));
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION record_changed_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  old_values jsonb := '{}';
  new_values jsonb := '{}';
BEGIN
  IF OLD.title IS DISTINCT FROM NEW.title THEN
    old_values := old_values || jsonb_build_object('title', OLD.title);
    new_values := new_values || jsonb_build_object('title', NEW.title);
  END IF;
  IF OLD.description IS DISTINCT FROM NEW.description THEN
    old_values := old_values || jsonb_build_object('description', OLD.description);
    new_values := new_values || jsonb_build_object('description', NEW.description);
  END IF;
  IF OLD.status IS DISTINCT FROM NEW.status THEN
    old_values := old_values || jsonb_build_object('status', OLD.status);
    new_values := new_values || jsonb_build_object('status', NEW.status);
  END IF;
  IF OLD.priority IS DISTINCT FROM NEW.priority THEN
    old_values := old_values || jsonb_build_object('priority', OLD.priority);
    new_values := new_values || jsonb_build_object('priority', NEW.priority);
  END IF;
  IF OLD.start_at IS DISTINCT FROM NEW.start_at THEN
    old_values := old_values || jsonb_build_object('start_at', instant_text(OLD.start_at));
    new_values := new_values || jsonb_build_object('start_at', instant_text(NEW.start_at));
  END IF;
  IF OLD.start_on IS DISTINCT FROM NEW.start_on THEN
    old_values := old_values || jsonb_build_object('start_on', OLD.start_on);
    new_values := new_values || jsonb_build_object('start_on', NEW.start_on);
  END IF;
  IF OLD.due_at IS DISTINCT FROM NEW.due_at THEN
    old_values := old_values || jsonb_build_object('due_at', instant_text(OLD.due_at));
    new_values := new_values || jsonb_build_object('due_at', instant_text(NEW.due_at));
  END IF;
  IF OLD.due_on IS DISTINCT FROM NEW.due_on THEN
    old_values := old_values || jsonb_build_object('due_on', OLD.due_on);
    new_values := new_values || jsonb_build_object('due_on', NEW.due_on);
  END IF;
  IF OLD.owner_id IS DISTINCT FROM NEW.owner_id THEN
    old_values := old_values || jsonb_build_object('owner_id', OLD.owner_id);
    new_values := new_values || jsonb_build_object('owner_id', NEW.owner_id);
  END IF;
  IF OLD.assignee_id IS DISTINCT FROM NEW.assignee_id THEN
    old_values := old_values || jsonb_build_object('assignee_id', OLD.assignee_id);
    new_values := new_values || jsonb_build_object('assignee_id', NEW.assignee_id);
  END IF;
  IF OLD.project_id IS DISTINCT FROM NEW.project_id THEN
    old_values := old_values || jsonb_build_object('project_id', OLD.project_id);
    new_values := new_values || jsonb_build_object('project_id', NEW.project_id);
  END IF;
  IF OLD.section_id IS DISTINCT FROM NEW.section_id THEN
    old_values := old_values || jsonb_build_object('section_id', OLD.section_id);
    new_values := new_values || jsonb_build_object('section_id', NEW.section_id);
  END IF;
  IF OLD.parent_id IS DISTINCT FROM NEW.parent_id THEN
    old_values := old_values || jsonb_build_object('parent_id', OLD.parent_id);
    new_values := new_values || jsonb_build_object('parent_id', NEW.parent_id);
  END IF;
  IF OLD.position IS DISTINCT FROM NEW.position THEN
    old_values := old_values || jsonb_build_object('position', OLD.position);
    new_values := new_values || jsonb_build_object('position', NEW.position);
  END IF;
  PERFORM record_event(
    CASE WHEN (OLD.deleted_at IS NULL) = (NEW.deleted_at IS NULL) THEN 'task.updated'
      WHEN NEW.deleted_at IS NULL THEN 'task.restored' ELSE 'task.deleted' END,
    NEW.id, NEW.project_id, NEW.owner_id, NEW.assignee_id, NULL, old_values, new_values);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_added_recorded AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION record_added_task();

CREATE OR REPLACE TRIGGER tasks_changed_recorded AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.title, OLD.description, OLD.status, OLD.priority, OLD.start_at, OLD.start_on, OLD.due_at, OLD.due_on, OLD.owner_id, OLD.assignee_id, OLD.project_id, OLD.section_id, OLD.parent_id, OLD.position, OLD.deleted_at) IS DISTINCT FROM (NEW.title, NEW.description, NEW.status, NEW.priority, NEW.start_at, NEW.start_on, NEW.due_at, NEW.due_on, NEW.owner_id, NEW.assignee_id, NEW.project_id, NEW.section_id, NEW.parent_id, NEW.position, NEW.deleted_at))
  EXECUTE FUNCTION record_changed_task();
-- End of the generated part.

-- Access ------------------------------------------------------------------------------------------------------------

-- Volatile, to see what a sign-in committed while the calling statement waited for the lock on the user.
CREATE OR REPLACE FUNCTION end_access(ended_user uuid, kept_session uuid) RETURNS void LANGUAGE sql VOLATILE AS $$
  DELETE FROM one_time_tokens WHERE user_id = ended_user AND purpose <> 'undo_email';
  DELETE FROM sessions WHERE user_id = ended_user AND id IS DISTINCT FROM kept_session;
$$;

-- Volatile, to count everything committed until the calling statement locked the user.
CREATE OR REPLACE FUNCTION count_tokens(asking_user uuid, counted_purpose text, counted_for interval) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM one_time_tokens
  WHERE user_id = asking_user AND purpose = counted_purpose AND created_at > now() - counted_for;
$$;

-- The number of invitations of a sender in the last day. Volatile, as above.
CREATE OR REPLACE FUNCTION count_invitations_by(sender uuid) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM invitation_mails WHERE invited_by = sender AND created_at > now() - interval '1 day';
$$;

-- The number of invitations to a mailbox in the last day. Until the end of the transaction, others that count the same mailbox
-- wait, so that concurrent invitations by several senders are counted.
CREATE OR REPLACE FUNCTION count_invitations_to(recipient text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('invitation_mails'), hashtext(recipient));
  RETURN (SELECT count(*) FROM invitation_mails WHERE mailbox = recipient AND created_at > now() - interval '1 day');
END $$;

-- Reserves an address that can still be restored to its user. Fires after the row, so that an insertion that waited for the
-- user's change of address sees the token that the change stored.
CREATE OR REPLACE FUNCTION refuse_reserved_email() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM one_time_tokens WHERE email = NEW.email AND user_id <> NEW.id AND expires_at > now()) THEN
    RAISE unique_violation USING CONSTRAINT = 'users_email_unique', TABLE = 'users';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER users_email_added AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION refuse_reserved_email();

CREATE OR REPLACE TRIGGER users_email_changed AFTER UPDATE OF email ON users FOR EACH ROW
WHEN (OLD.email IS DISTINCT FROM NEW.email) EXECUTE FUNCTION refuse_reserved_email();
