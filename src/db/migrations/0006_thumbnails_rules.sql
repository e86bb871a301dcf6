-- A thumbnail goes with its attachment, and its file goes the same way.
CREATE FUNCTION forget_thumbnail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO file_deletions (storage_key) VALUES (OLD.storage_key);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER thumbnails_removed AFTER DELETE ON thumbnails FOR EACH ROW EXECUTE FUNCTION forget_thumbnail();
