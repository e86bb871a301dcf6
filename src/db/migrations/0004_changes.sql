CREATE TABLE "change_history" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"epoch" integer DEFAULT 1 NOT NULL,
	"pruned_through" "xid8" DEFAULT '0' NOT NULL,
	CONSTRAINT "change_history_is_one" CHECK ("change_history"."singleton")
);
--> statement-breakpoint
CREATE TABLE "task_departures" (
	"task_id" uuid NOT NULL,
	"user_id" uuid,
	"changed_in" "xid8" NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "task_departures_once" UNIQUE NULLS NOT DISTINCT("task_id","user_id")
);
--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "changed_in" "xid8" DEFAULT pg_current_xact_id() NOT NULL;--> statement-breakpoint
CREATE INDEX "task_departures_changes" ON "task_departures" USING btree ("user_id","changed_in","task_id");--> statement-breakpoint
CREATE INDEX "task_departures_age" ON "task_departures" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "tasks_changes" ON "tasks" USING btree ("changed_in","id") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_changes" ON "tasks" USING btree ("owner_id","changed_in","id") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_changes" ON "tasks" USING btree ("assignee_id","changed_in","id") WHERE "tasks"."deleted_at" is null;