ALTER TABLE "attachments" ADD COLUMN "detected_content_type" text;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "attachment_bytes" bigint DEFAULT 0 NOT NULL;