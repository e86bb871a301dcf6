-- An upload that became no attachment leaves its bytes to the outbox, whoever deletes its row. Those of one that did are
-- the attachment's.
CREATE FUNCTION forget_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key, is_unfinished) VALUES (OLD.storage_key, true);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER uploads_removed AFTER DELETE ON uploads FOR EACH ROW
  WHEN (OLD.attachment_id IS NULL) EXECUTE FUNCTION forget_upload();
