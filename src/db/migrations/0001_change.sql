ALTER TABLE "projects" ADD COLUMN "metadata" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "external_source" text;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "external_id" text;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "recurrence" jsonb;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "series_id" uuid;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "recurrence_anchor" jsonb;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "occurrence_number" integer;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "occurrence_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "occurrence_on" date;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "next_task_id" uuid;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "metadata" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "external_source" text;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "external_id" text;--> statement-breakpoint
CREATE INDEX "tasks_series" ON "tasks" USING btree ("series_id") WHERE "tasks"."series_id" is not null;--> statement-breakpoint
CREATE INDEX "tasks_metadata" ON "tasks" USING gin ("metadata" jsonb_path_ops) WHERE "tasks"."metadata" <> '{}';--> statement-breakpoint
CREATE INDEX "tasks_external" ON "tasks" USING btree ("external_id") WHERE "tasks"."external_id" is not null;