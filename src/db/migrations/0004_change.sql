ALTER TABLE "exports" ADD COLUMN "renewals" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "imports" ADD COLUMN "renewals" integer DEFAULT 0 NOT NULL;