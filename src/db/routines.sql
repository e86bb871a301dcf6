-- Revision 4
--
-- Functions and triggers, and the indexes that call these functions: everything that drizzle-kit cannot derive from
-- schema/tables.ts. The whole file is applied after the migrations whenever it has changed, so each statement can be repeated.
-- A release that changes the file raises the revision: an older version that starts meanwhile leaves newer routines alone.

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
-- Lao) are indexed as pairs of adjacent characters; the last character of a run stands alone. Lateral joins keep the order
-- of the words. PL/pgSQL keeps the plan for the session; an SQL function would be planned again for each row.
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

-- Pairs of adjacent characters. An index on them finds any part of a title or name.
CREATE OR REPLACE FUNCTION pairs_of(value text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(DISTINCT a || b), '{}')
  FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
  WHERE b IS NOT NULL;
END;

-- The same pairs as lexemes. The prefix U+0001 keeps them apart from words.
CREATE OR REPLACE FUNCTION pair_lexemes(value text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN (
    SELECT array_to_tsvector(coalesce(array_agg(U&'\0001' || a || b), '{}'))
    FROM unnest(string_to_array(value, NULL), (string_to_array(value, NULL))[2:]) pairs (a, b)
    WHERE b IS NOT NULL);
END $$;

-- A trigger, because tasks_touch cannot compare generated columns.
CREATE OR REPLACE FUNCTION index_task_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.title_folded := searched_text(NEW.title);
  NEW.description_folded := searched_text(NEW.description);
  NEW.search := setweight(words_of(NEW.title_folded), 'A') || setweight(words_of(NEW.description_folded), 'D')
    || pair_lexemes(NEW.title_folded);
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER tasks_text_inserted BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION index_task_text();

CREATE OR REPLACE TRIGGER tasks_text_changed BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.title, OLD.description) IS DISTINCT FROM (NEW.title, NEW.description)) EXECUTE FUNCTION index_task_text();

CREATE INDEX IF NOT EXISTS users_name_pairs ON users USING gin (pairs_of(fold_text(username || ' ' || display_name)));
CREATE INDEX IF NOT EXISTS tags_name_pairs ON tags USING gin (pairs_of(fold_text(name)));
CREATE INDEX IF NOT EXISTS projects_name_pairs ON projects USING gin (pairs_of(name_folded));
CREATE INDEX IF NOT EXISTS teams_name_pairs ON teams USING gin (pairs_of(name_folded));

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
  WHEN ((OLD.username, OLD.email, OLD.display_name, OLD.role, OLD.time_zone)
    IS DISTINCT FROM (NEW.username, NEW.email, NEW.display_name, NEW.role, NEW.time_zone)) EXECUTE FUNCTION touch();

CREATE OR REPLACE TRIGGER projects_touch BEFORE UPDATE ON projects FOR EACH ROW
  WHEN ((OLD.name, OLD.description, OLD.color, OLD.archived_at, OLD.deleted_at)
    IS DISTINCT FROM (NEW.name, NEW.description, NEW.color, NEW.archived_at, NEW.deleted_at)) EXECUTE FUNCTION touch();

CREATE OR REPLACE TRIGGER teams_touch BEFORE UPDATE ON teams FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();

-- For rows that have no time of their last change.
CREATE OR REPLACE FUNCTION count_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER team_members_touch BEFORE UPDATE ON team_members FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION count_version();

CREATE OR REPLACE TRIGGER project_members_touch BEFORE UPDATE ON project_members FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION count_version();

CREATE OR REPLACE TRIGGER project_teams_touch BEFORE UPDATE ON project_teams FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION count_version();

CREATE OR REPLACE TRIGGER sections_touch BEFORE UPDATE ON sections FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();

-- Also records the transaction, which orders the change feed. A statement that sets changed_in itself changes nothing that a
-- client sees; one that makes several changes sets the version itself. If the clock is set back, the times of a change are
-- still not earlier than the creation.
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

-- Removing a tag from a task changes the task, also if the tag or its owner was deleted. Adding a tag is counted by the
-- statement that adds it, because a new task starts at version 1 with its tags.
CREATE OR REPLACE FUNCTION touch_untagged_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET version = version + 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER task_tags_removed AFTER DELETE ON task_tags FOR EACH ROW
  WHEN (current_setting('taskwright.replaces_tags', true) IS DISTINCT FROM 'on')
  EXECUTE FUNCTION touch_untagged_task();

-- The tags of a task. Volatile, so that it sees what was committed while the calling statement waited for the task.
CREATE OR REPLACE FUNCTION tags_of_task(carrier uuid) RETURNS uuid[] LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(array_agg(tag_id ORDER BY tag_id), '{}') FROM task_tags WHERE task_id = carrier;
$$;

-- Replaces the tags of tasks that the calling statement has locked: an array of {task_id, tag_ids}. It sees what was
-- committed meanwhile, too. That statement updates the tasks afterwards, so that links are counted for those who saw the
-- task before, and counts the change itself: hence the setting, which keeps the trigger from doing so.
CREATE OR REPLACE FUNCTION replace_task_tags(replacements jsonb) RETURNS void LANGUAGE plpgsql VOLATILE STRICT
SET taskwright.replaces_tags = 'on' AS $$
BEGIN
  DELETE FROM task_tags link USING jsonb_to_recordset(replacements) AS task (task_id uuid, tag_ids uuid[])
  WHERE link.task_id = task.task_id AND link.tag_id <> ALL (task.tag_ids);
  INSERT INTO task_tags (task_id, tag_id)
    SELECT task.task_id, tag_id
    FROM jsonb_to_recordset(replacements) AS task (task_id uuid, tag_ids uuid[]), unnest(task.tag_ids) tag_id
    ON CONFLICT DO NOTHING;
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

-- The calendar day at an instant. A database restored on an older server can have a zone that this one does not know: UTC.
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
  IF (TG_OP = 'INSERT' OR NEW.owner_id <> OLD.owner_id)
    AND EXISTS (SELECT FROM users WHERE id = NEW.owner_id AND deleted_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'tasks_owner_id_users_id_fk';
  END IF;
  IF (TG_OP = 'INSERT' OR NEW.assignee_id IS DISTINCT FROM OLD.assignee_id)
    AND EXISTS (SELECT FROM users WHERE id = NEW.assignee_id AND deleted_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'tasks_assignee_id_users_id_fk';
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
-- A project in the trash takes no tasks and tags. Like the triggers above, these fire after the checks of the foreign keys, which
-- wait for a project that is being moved to the trash (move_project).

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
-- `memberships` says who has access to a project. Whatever changes a member, a team or a project computes it anew under the
-- lock of the project, so that concurrent changes see each other. Locks are taken in the order: teams, projects. A statement
-- that inserts a row that references a project locks the project first, because its foreign key would share that lock.

-- What each member, and each member of a team, was granted. Projects in the trash are included.
CREATE OR REPLACE VIEW project_grants AS
  SELECT project_id, user_id, role FROM project_members
  UNION ALL SELECT project.project_id, member.user_id, project.role
  FROM project_teams project JOIN team_members member ON member.team_id = project.team_id;

-- A role includes those before it.
CREATE OR REPLACE FUNCTION role_rank(role text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN array_position(ARRAY['viewer', 'commenter', 'editor', 'manager'], role);

-- Computes the memberships of projects, of all users or of those in `whose`. Volatile, so that each statement sees what was
-- committed while it waited for the locks.
CREATE OR REPLACE FUNCTION compute_memberships(which uuid[], whose uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  -- Not only FOR NO KEY UPDATE: a task that is being added to the project is waited for, since whoever leaves may have seen it.
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
  ), departed AS (
    INSERT INTO departures (project_id, user_id, left_in, created_at)
      SELECT project_id, user_id, pg_current_xact_id(), clock_timestamp() FROM ended
      ON CONFLICT ON CONSTRAINT departures_once DO UPDATE SET left_in = EXCLUDED.left_in, created_at = EXCLUDED.created_at
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

-- A team has a manager as long as it exists.
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

-- The projects of a deleted user. One that nobody else has access to, also in the trash, is deleted with the account; one that
-- others have access to and nobody else manages keeps the account from being deleted. The same holds for teams. Projects in the
-- trash are locked as well, because a restoration computes memberships.
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
CREATE OR REPLACE FUNCTION show_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.visible_in := pg_current_xact_id();
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER projects_shown BEFORE UPDATE OF deleted_at ON projects FOR EACH ROW
  WHEN (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL) EXECUTE FUNCTION show_project();

-- The tasks of a project stay as they are when it moves to the trash or is restored: members see them or not by their
-- membership. The others who see some of them are assignees who are no members, and the administrators.
CREATE OR REPLACE FUNCTION move_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Waits for tasks that are being assigned (keep_tombstones).
  PERFORM FROM projects WHERE id = NEW.id FOR UPDATE;
  IF NEW.deleted_at IS NOT NULL THEN
    INSERT INTO task_tombstones (task_id, project_id, user_id, changed_in, placed_at)
      SELECT id, project_id, assignee_id, pg_current_xact_id(), coalesce(placed_at, created_at) FROM tasks task
      WHERE project_id = NEW.id AND deleted_at IS NULL AND assignee_id IS NOT NULL
        AND NOT EXISTS (SELECT FROM memberships WHERE project_id = NEW.id AND user_id = task.assignee_id)
      ON CONFLICT ON CONSTRAINT task_tombstones_once
        DO UPDATE SET changed_in = EXCLUDED.changed_in, created_at = EXCLUDED.created_at;
    INSERT INTO departures (project_id, user_id, left_in, created_at)
      VALUES (NEW.id, NULL, pg_current_xact_id(), clock_timestamp())
      ON CONFLICT ON CONSTRAINT departures_once DO UPDATE SET left_in = EXCLUDED.left_in, created_at = EXCLUDED.created_at;
  END IF;
  PERFORM compute_memberships(ARRAY[NEW.id], NULL);
  IF NEW.deleted_at IS NULL THEN
    -- Setting changed_in changes nothing that a client sees.
    UPDATE tasks task SET changed_in = pg_current_xact_id()
    WHERE project_id = NEW.id AND deleted_at IS NULL AND assignee_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM memberships WHERE project_id = NEW.id AND user_id = task.assignee_id);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER projects_moved AFTER UPDATE OF deleted_at ON projects FOR EACH ROW
  WHEN ((OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)) EXECUTE FUNCTION move_project();

-- Sections ----------------------------------------------------------------------------------------------------------
-- Fires when the section is locked, so that it sees every task that was put into it before.
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

-- Attachments and files ---------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION count_added_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET attachment_count = attachment_count + 1 WHERE id = NEW.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_added AFTER INSERT ON attachments
  FOR EACH ROW EXECUTE FUNCTION count_added_attachment();

-- Deletes the row, decrements the count and queues the file for deletion in one transaction, whichever statement deletes.
CREATE OR REPLACE FUNCTION forget_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  UPDATE tasks SET attachment_count = attachment_count - 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER attachments_removed AFTER DELETE ON attachments
  FOR EACH ROW EXECUTE FUNCTION forget_attachment();

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
CREATE OR REPLACE FUNCTION forget_thumbnail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER thumbnails_removed AFTER DELETE ON thumbnails
  FOR EACH ROW EXECUTE FUNCTION forget_thumbnail();

-- Queues the bytes of an unfinished upload for deletion, whichever statement deletes its row. The bytes of a finished upload
-- belong to the attachment.
CREATE OR REPLACE FUNCTION forget_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key, is_unfinished) VALUES (OLD.storage_key, true);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER uploads_removed AFTER DELETE ON uploads FOR EACH ROW
  WHEN (OLD.attachment_id IS NULL) EXECUTE FUNCTION forget_upload();

-- Change feed -------------------------------------------------------------------------------------------------------

-- Writes a tombstone for each viewer who no longer sees the task, and removes it for each user who sees it again. That of a
-- project stays, for those who have left the project meanwhile.
CREATE OR REPLACE FUNCTION keep_tombstones() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A project that moves to the trash meanwhile must know of its assignees (move_project).
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
  WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION keep_tombstones();

-- Tag counts --------------------------------------------------------------------------------------------------------
-- The number of tasks with a tag, per viewer. Each function reads the current tasks: a statement that adds or removes a tag,
-- or changes who sees the task, has locked the task before.

CREATE OR REPLACE FUNCTION count_tags_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

-- The links of a deleted task were discounted when it was deleted.
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

CREATE OR REPLACE TRIGGER task_tags_discounted AFTER DELETE ON task_tags
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_tags_removed();

-- A task with tags gets other viewers, is moved to or from the trash, or is deleted.
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

CREATE OR REPLACE FUNCTION forget_tag_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tag_counts WHERE tag_id = OLD.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tags_removed AFTER DELETE ON tags FOR EACH ROW EXECUTE FUNCTION forget_tag_counts();

-- Viewers -----------------------------------------------------------------------------------------------------------
-- Generated from src/db/access/task-relations.ts by `npm run generate`.
-- Who sees a task, a row each: the members of its project (null as user), a user, and the administrators (null and null);
-- nobody while it is in the trash.
CREATE OR REPLACE FUNCTION task_viewers(task tasks) RETURNS TABLE (project_id uuid, user_id uuid) LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT NULL::uuid, (task).owner_id::uuid WHERE (task).deleted_at IS NULL AND (task).project_id IS NULL
  UNION SELECT (task).project_id::uuid, (task).assignee_id::uuid WHERE (task).deleted_at IS NULL AND (task).assignee_id IS NOT NULL
  UNION SELECT (task).project_id::uuid, NULL::uuid WHERE (task).deleted_at IS NULL AND (task).project_id IS NOT NULL
  UNION SELECT NULL::uuid, NULL::uuid WHERE (task).deleted_at IS NULL AND true;
END;

CREATE OR REPLACE TRIGGER tasks_viewers_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.project_id, OLD.assignee_id, OLD.deleted_at) IS DISTINCT FROM (NEW.owner_id, NEW.project_id, NEW.assignee_id, NEW.deleted_at)) EXECUTE FUNCTION keep_tombstones();

CREATE OR REPLACE TRIGGER tasks_tags_viewers_changed AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.project_id, OLD.assignee_id, OLD.deleted_at) IS DISTINCT FROM (NEW.owner_id, NEW.project_id, NEW.assignee_id, NEW.deleted_at)) EXECUTE FUNCTION count_tags_of_task();
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

-- Mails with invitations of the last day, by sender and by recipient. Volatile, as above.
CREATE OR REPLACE FUNCTION count_invitations_by(sender uuid) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM invitation_mails WHERE invited_by = sender AND created_at > now() - interval '1 day';
$$;

CREATE OR REPLACE FUNCTION count_invitations_to(recipient text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM invitation_mails WHERE email = recipient AND created_at > now() - interval '1 day';
$$;

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
