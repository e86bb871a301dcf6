-- No task is completed or changed before it was created, though the clock may be set back.
CREATE OR REPLACE FUNCTION touch_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.changed_in = OLD.changed_in THEN
    NEW.version := OLD.version + 1;
    NEW.updated_at := greatest(clock_timestamp(), NEW.created_at);
    IF NEW.completed_at < NEW.created_at THEN
      NEW.completed_at := NEW.created_at;
    END IF;
  END IF;
  NEW.changed_in := pg_current_xact_id();
  RETURN NEW;
END $$;
--> statement-breakpoint
-- This and the constraint that comes with it read the table: 0.5 s for 1,000,000 rows.
UPDATE tasks SET version = version + 1 WHERE completed_at < created_at OR updated_at < created_at;
