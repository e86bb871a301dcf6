CREATE TABLE "feeds" (
	"id" uuid PRIMARY KEY NOT NULL,
	"owner_id" uuid NOT NULL,
	"name" text NOT NULL,
	"filter" text NOT NULL,
	"kind" text NOT NULL,
	"alarms" boolean NOT NULL,
	"color" text,
	"hash" "bytea" NOT NULL,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"revoked_at" timestamp (3) with time zone,
	CONSTRAINT "feeds_kind_known" CHECK ("feeds"."kind" in ('todo', 'event'))
);
--> statement-breakpoint
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
ALTER TABLE "feeds" ADD CONSTRAINT "feeds_owner_id_users_id_fk" FOREIGN KEY ("owner_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "feeds_owner_newest" ON "feeds" USING btree ("owner_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "feeds_revoked" ON "feeds" USING btree ("revoked_at") WHERE "feeds"."revoked_at" is not null;--> statement-breakpoint
CREATE INDEX "tasks_series" ON "tasks" USING btree ("series_id") WHERE "tasks"."series_id" is not null;--> statement-breakpoint
CREATE INDEX "tasks_metadata" ON "tasks" USING gin ("metadata" jsonb_path_ops) WHERE "tasks"."metadata" <> '{}';--> statement-breakpoint
CREATE INDEX "tasks_external" ON "tasks" USING btree ("external_id") WHERE "tasks"."external_id" is not null;