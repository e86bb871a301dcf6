-- In place of touch(): the last change is known by its transaction too. A statement that sets changed_in itself changes
-- nothing that a client sees.
CREATE FUNCTION touch_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.changed_in = OLD.changed_in THEN
    NEW.version := OLD.version + 1;
    NEW.updated_at := clock_timestamp();
  END IF;
  NEW.changed_in := pg_current_xact_id();
  RETURN NEW;
END $$;
--> statement-breakpoint
DROP TRIGGER tasks_touch ON tasks;
--> statement-breakpoint
CREATE TRIGGER tasks_touch BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch_task();
--> statement-breakpoint
-- Who sees a task: its owner, its assignee and the administrators, for whom null stands; nobody sees it in the trash.
CREATE FUNCTION viewers_of(task tasks) RETURNS SETOF uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT viewer FROM unnest(ARRAY[task.owner_id, coalesce(task.assignee_id, task.owner_id), NULL]) viewer
  WHERE task.deleted_at IS NULL;
$$;
--> statement-breakpoint
-- A task that leaves somebody's sight has departed for them until it comes back.
CREATE FUNCTION note_departures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_departures (task_id, user_id, changed_in)
    SELECT OLD.id, viewer, pg_current_xact_id() FROM viewers_of(OLD) viewer
    EXCEPT SELECT OLD.id, viewer, pg_current_xact_id() FROM viewers_of(NEW) viewer WHERE TG_OP = 'UPDATE'
    ON CONFLICT ON CONSTRAINT task_departures_once
      DO UPDATE SET changed_in = EXCLUDED.changed_in, created_at = EXCLUDED.created_at;
  IF TG_OP = 'UPDATE' THEN
    DELETE FROM task_departures USING viewers_of(NEW) viewer
      WHERE task_id = NEW.id AND user_id IS NOT DISTINCT FROM viewer;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER tasks_passed_on AFTER UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.owner_id, OLD.assignee_id, OLD.deleted_at) IS DISTINCT FROM (NEW.owner_id, NEW.assignee_id, NEW.deleted_at))
  EXECUTE FUNCTION note_departures();
--> statement-breakpoint
CREATE TRIGGER tasks_removed AFTER DELETE ON tasks FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION note_departures();
