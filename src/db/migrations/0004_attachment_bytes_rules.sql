-- What a user's files take together, whichever statement adds or removes them, cascades of foreign keys included.
-- (An attachment changes its uploader only by losing it, when that user and so the count is gone.)
CREATE FUNCTION charge_added_attachments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE users SET attachment_bytes = attachment_bytes + charge.size
  FROM (SELECT uploaded_by, sum(size) AS size FROM added GROUP BY uploaded_by) charge
  WHERE users.id = charge.uploaded_by;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER attachments_charged AFTER INSERT ON attachments
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION charge_added_attachments();
--> statement-breakpoint
-- Always in the order of their ids, so that two deletions never wait for each other's uploaders.
CREATE FUNCTION refund_removed_attachments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM users WHERE id IN (SELECT uploaded_by FROM removed) ORDER BY id FOR NO KEY UPDATE;
  UPDATE users SET attachment_bytes = attachment_bytes - refund.size
  FROM (SELECT uploaded_by, sum(size) AS size FROM removed GROUP BY uploaded_by) refund
  WHERE users.id = refund.uploaded_by;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER attachments_refunded AFTER DELETE ON attachments
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION refund_removed_attachments();
--> statement-breakpoint
UPDATE users SET attachment_bytes = held.size
FROM (SELECT uploaded_by, sum(size) AS size FROM attachments GROUP BY uploaded_by) held
WHERE users.id = held.uploaded_by;
