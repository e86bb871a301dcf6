-- What holds whichever statement makes the change, cascades of foreign keys included.

-- A version and a time that move with every change, so that an ETag never stands for two representations.
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  NEW.updated_at := clock_timestamp();
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER tasks_touch BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();
--> statement-breakpoint
-- The password hash is not part of what a client sees.
CREATE TRIGGER users_touch BEFORE UPDATE ON users FOR EACH ROW
  WHEN ((OLD.username, OLD.email, OLD.display_name, OLD.role)
    IS DISTINCT FROM (NEW.username, NEW.email, NEW.display_name, NEW.role)) EXECUTE FUNCTION touch();
--> statement-breakpoint
-- A tag that is taken off, by hand or because it or its owner was deleted, changes the task that carried it.
-- (Putting one on is done by the statements that do it, since a new task starts at version 1 with its tags.)
CREATE FUNCTION touch_untagged_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET version = version + 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER task_tags_removed AFTER DELETE ON task_tags FOR EACH ROW EXECUTE FUNCTION touch_untagged_task();
--> statement-breakpoint
CREATE FUNCTION count_added_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks SET attachment_count = attachment_count + 1 WHERE id = NEW.task_id;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER attachments_added AFTER INSERT ON attachments FOR EACH ROW EXECUTE FUNCTION count_added_attachment();
--> statement-breakpoint
-- The row goes, the count goes down, and the file is put down for deletion: in one transaction, whoever deletes.
CREATE FUNCTION forget_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  UPDATE tasks SET attachment_count = attachment_count - 1 WHERE id = OLD.task_id;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER attachments_removed AFTER DELETE ON attachments FOR EACH ROW EXECUTE FUNCTION forget_attachment();
