CREATE TABLE "exports" (
	"id" uuid PRIMARY KEY NOT NULL,
	"requested_by" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"project_id" uuid,
	"status" text DEFAULT 'waiting' NOT NULL,
	"done" integer DEFAULT 0 NOT NULL,
	"total" integer,
	"attempts" integer DEFAULT 0 NOT NULL,
	"lease_id" uuid,
	"leased_until" timestamp (3) with time zone,
	"failure" text,
	"writing_key" text,
	"storage_key" text,
	"size" bigint,
	"sha256" text,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp (3) with time zone,
	"expires_at" timestamp (3) with time zone,
	CONSTRAINT "exports_status_known" CHECK ("exports"."status" in ('waiting', 'running', 'finished', 'failed', 'cancelled', 'expired')),
	CONSTRAINT "exports_file_whole" CHECK (("exports"."storage_key" is null) = ("exports"."status" <> 'finished') and ("exports"."status" <> 'finished' or ("exports"."size" is not null and "exports"."sha256" is not null)))
);
--> statement-breakpoint
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
CREATE TABLE "identities" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"issuer" text NOT NULL,
	"subject" text NOT NULL,
	"email" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"last_used_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "import_records" (
	"user_id" uuid NOT NULL,
	"source" text NOT NULL,
	"type" text NOT NULL,
	"source_id" text NOT NULL,
	"resource_id" uuid NOT NULL,
	"is_made" boolean NOT NULL,
	"import_id" uuid,
	"project_id" uuid,
	"fields" jsonb,
	"version" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "import_records_user_id_source_type_source_id_pk" PRIMARY KEY("user_id","source","type","source_id")
);
--> statement-breakpoint
CREATE TABLE "import_rows" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"import_id" uuid NOT NULL,
	"number" integer NOT NULL,
	"outcome" text NOT NULL,
	"type" text,
	"source_id" text,
	"part" text,
	"row" integer,
	"field" text,
	"code" text,
	"message" text,
	"resource_id" uuid
);
--> statement-breakpoint
CREATE TABLE "imports" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"status" text DEFAULT 'reading' NOT NULL,
	"failure" text,
	"file_name" text NOT NULL,
	"storage_key" text,
	"size" bigint NOT NULL,
	"sha256" text NOT NULL,
	"format" text,
	"csv" jsonb,
	"project_id" uuid,
	"existing" text DEFAULT 'skip' NOT NULL,
	"users" jsonb DEFAULT '[]' NOT NULL,
	"authors" jsonb DEFAULT '[]' NOT NULL,
	"preview" jsonb,
	"result" jsonb,
	"done" integer DEFAULT 0 NOT NULL,
	"total" integer,
	"attempts" integer DEFAULT 0 NOT NULL,
	"lease_id" uuid,
	"leased_until" timestamp (3) with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp (3) with time zone,
	"file_expires_at" timestamp (3) with time zone NOT NULL,
	"deleted_at" timestamp (3) with time zone,
	CONSTRAINT "imports_status_known" CHECK ("imports"."status" in ('reading', 'ready', 'running', 'finished', 'failed', 'cancelled', 'undoing', 'undone', 'discarding'))
);
--> statement-breakpoint
CREATE TABLE "logout_tokens" (
	"issuer" text NOT NULL,
	"token_id" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "logout_tokens_issuer_token_id_pk" PRIMARY KEY("issuer","token_id")
);
--> statement-breakpoint
CREATE TABLE "oidc_codes" (
	"hash" "bytea" PRIMARY KEY NOT NULL,
	"sealed" "bytea" NOT NULL,
	"subject_hash" "bytea" NOT NULL,
	"sid_hash" "bytea",
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "provider_sessions" (
	"session_id" uuid PRIMARY KEY NOT NULL,
	"identity_id" uuid NOT NULL,
	"sid" text
);
--> statement-breakpoint
CREATE TABLE "reminders" (
	"id" uuid PRIMARY KEY NOT NULL,
	"task_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"at" timestamp (3) with time zone,
	"relative_to" text,
	"offset_minutes" integer,
	"time_of_day" text,
	"snoozed_until" timestamp (3) with time zone,
	"remind_at" timestamp (3) with time zone,
	"fires_at" timestamp (3) with time zone,
	"fired_at" timestamp (3) with time zone,
	"late_seconds" integer,
	"is_mail_due" boolean DEFAULT false NOT NULL,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "reminders_kind" CHECK (("reminders"."at" is null) <> ("reminders"."relative_to" is null)),
	CONSTRAINT "reminders_offset_is_relative" CHECK (("reminders"."relative_to" is null) = ("reminders"."offset_minutes" is null) and ("reminders"."relative_to" is null) = ("reminders"."time_of_day" is null)),
	CONSTRAINT "reminders_relative_to_known" CHECK ("reminders"."relative_to" in ('due', 'start'))
);
--> statement-breakpoint
ALTER TABLE "notifications" DROP CONSTRAINT "notifications_reason_known";--> statement-breakpoint
ALTER TABLE "notifications" ALTER COLUMN "task_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "uploads" ALTER COLUMN "task_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "users" ALTER COLUMN "password_hash" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "comments" ADD COLUMN "author_name" text;--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "recipient_id" uuid;--> statement-breakpoint
ALTER TABLE "notification_settings" ADD COLUMN "mail_reminders" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "notification_settings" ADD COLUMN "reminders_mailed_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "notifications" ADD COLUMN "export_id" uuid;--> statement-breakpoint
ALTER TABLE "notifications" ADD COLUMN "import_id" uuid;--> statement-breakpoint
ALTER TABLE "notifications" ADD COLUMN "reminder_id" uuid;--> statement-breakpoint
ALTER TABLE "one_time_tokens" ADD COLUMN "identity_id" uuid;--> statement-breakpoint
ALTER TABLE "one_time_tokens" ADD COLUMN "sid" text;--> statement-breakpoint
ALTER TABLE "one_time_tokens" ADD COLUMN "claims" text;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "metadata" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "external_source" text;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "external_id" text;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "filling_import_id" uuid;--> statement-breakpoint
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
ALTER TABLE "team_members" ADD COLUMN "source" text;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "import_id" uuid;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "may_use_password" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "sign_in_due_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "exports" ADD CONSTRAINT "exports_requested_by_users_id_fk" FOREIGN KEY ("requested_by") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "exports" ADD CONSTRAINT "exports_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "exports" ADD CONSTRAINT "exports_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "feeds" ADD CONSTRAINT "feeds_owner_id_users_id_fk" FOREIGN KEY ("owner_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "identities" ADD CONSTRAINT "identities_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "import_records" ADD CONSTRAINT "import_records_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "import_records" ADD CONSTRAINT "import_records_import_id_imports_id_fk" FOREIGN KEY ("import_id") REFERENCES "public"."imports"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "import_rows" ADD CONSTRAINT "import_rows_import_id_imports_id_fk" FOREIGN KEY ("import_id") REFERENCES "public"."imports"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "imports" ADD CONSTRAINT "imports_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "provider_sessions" ADD CONSTRAINT "provider_sessions_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "provider_sessions" ADD CONSTRAINT "provider_sessions_identity_id_identities_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."identities"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "reminders" ADD CONSTRAINT "reminders_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "reminders" ADD CONSTRAINT "reminders_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "exports_requester_newest" ON "exports" USING btree ("requested_by","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "exports_user" ON "exports" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "exports_project" ON "exports" USING btree ("project_id") WHERE "exports"."project_id" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "exports_one_runs" ON "exports" USING btree ("requested_by") WHERE "exports"."status" = 'running';--> statement-breakpoint
CREATE INDEX "exports_unfinished" ON "exports" USING btree ("created_at") WHERE "exports"."status" in ('waiting', 'running');--> statement-breakpoint
CREATE INDEX "exports_expiry" ON "exports" USING btree ("expires_at") WHERE "exports"."storage_key" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "exports_storage_key_unique" ON "exports" USING btree ("storage_key");--> statement-breakpoint
CREATE INDEX "feeds_owner_newest" ON "feeds" USING btree ("owner_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "feeds_revoked" ON "feeds" USING btree ("revoked_at") WHERE "feeds"."revoked_at" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "identities_subject_unique" ON "identities" USING btree ("issuer","subject");--> statement-breakpoint
CREATE UNIQUE INDEX "identities_user_once" ON "identities" USING btree ("user_id","issuer");--> statement-breakpoint
CREATE INDEX "identities_user_newest" ON "identities" USING btree ("user_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "import_records_import" ON "import_records" USING btree ("import_id","type","resource_id");--> statement-breakpoint
CREATE UNIQUE INDEX "import_rows_number" ON "import_rows" USING btree ("import_id","number");--> statement-breakpoint
CREATE INDEX "import_rows_outcome" ON "import_rows" USING btree ("import_id","outcome","number");--> statement-breakpoint
CREATE INDEX "imports_user_newest" ON "imports" USING btree ("user_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "imports_unfinished" ON "imports" USING btree ("updated_at") WHERE "imports"."status" in ('reading', 'running', 'undoing', 'discarding');--> statement-breakpoint
CREATE INDEX "imports_deleted" ON "imports" USING btree ("id") WHERE "imports"."deleted_at" is not null;--> statement-breakpoint
CREATE INDEX "imports_file_expiry" ON "imports" USING btree ("file_expires_at") WHERE "imports"."storage_key" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "imports_storage_key_unique" ON "imports" USING btree ("storage_key");--> statement-breakpoint
CREATE INDEX "logout_tokens_expiry" ON "logout_tokens" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "oidc_codes_expiry" ON "oidc_codes" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "provider_sessions_identity" ON "provider_sessions" USING btree ("identity_id");--> statement-breakpoint
CREATE INDEX "reminders_user" ON "reminders" USING btree ("user_id","remind_at" desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "reminders_task" ON "reminders" USING btree ("task_id","user_id");--> statement-breakpoint
CREATE INDEX "reminders_due" ON "reminders" USING btree ("fires_at","id") WHERE "reminders"."fires_at" is not null;--> statement-breakpoint
CREATE INDEX "reminders_age" ON "reminders" USING btree ("remind_at") WHERE "reminders"."fires_at" is null;--> statement-breakpoint
CREATE INDEX "reminders_mail_due" ON "reminders" USING btree ("user_id","fired_at") WHERE "reminders"."is_mail_due";--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_export_id_exports_id_fk" FOREIGN KEY ("export_id") REFERENCES "public"."exports"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_import_id_imports_id_fk" FOREIGN KEY ("import_id") REFERENCES "public"."imports"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "one_time_tokens" ADD CONSTRAINT "one_time_tokens_identity_id_identities_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."identities"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "uploads" ADD CONSTRAINT "uploads_import_id_imports_id_fk" FOREIGN KEY ("import_id") REFERENCES "public"."imports"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "notifications_export" ON "notifications" USING btree ("export_id") WHERE "notifications"."export_id" is not null;--> statement-breakpoint
CREATE INDEX "notifications_import" ON "notifications" USING btree ("import_id") WHERE "notifications"."import_id" is not null;--> statement-breakpoint
CREATE INDEX "one_time_tokens_identity" ON "one_time_tokens" USING btree ("identity_id") WHERE "one_time_tokens"."identity_id" is not null;--> statement-breakpoint
CREATE INDEX "projects_filling" ON "projects" USING btree ("filling_import_id") WHERE "projects"."filling_import_id" is not null;--> statement-breakpoint
CREATE INDEX "tasks_series" ON "tasks" USING btree ("series_id") WHERE "tasks"."series_id" is not null;--> statement-breakpoint
CREATE INDEX "tasks_metadata" ON "tasks" USING gin ("metadata" jsonb_path_ops) WHERE "tasks"."metadata" <> '{}';--> statement-breakpoint
CREATE INDEX "tasks_external" ON "tasks" USING btree ("external_id") WHERE "tasks"."external_id" is not null;--> statement-breakpoint
CREATE INDEX "uploads_import" ON "uploads" USING btree ("import_id");--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_of_one" CHECK (num_nonnulls("notifications"."task_id", "notifications"."export_id", "notifications"."import_id") = 1);--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_reason_known" CHECK ("notifications"."reason" in ('mention', 'assignment', 'comment', 'completion', 'reminder', 'export', 'import'));--> statement-breakpoint
ALTER TABLE "uploads" ADD CONSTRAINT "uploads_outcome_of_kind" CHECK (case when "uploads"."task_id" is null then "uploads"."attachment_id" else "uploads"."import_id" end is null);