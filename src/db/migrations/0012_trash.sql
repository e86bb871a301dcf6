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
DROP INDEX "tasks_newest";--> statement-breakpoint
DROP INDEX "tasks_owner_newest";--> statement-breakpoint
DROP INDEX "tasks_assignee_newest";--> statement-breakpoint
DROP INDEX "tasks_updated";--> statement-breakpoint
DROP INDEX "tasks_owner_updated";--> statement-breakpoint
DROP INDEX "tasks_assignee_updated";--> statement-breakpoint
DROP INDEX "tasks_due";--> statement-breakpoint
DROP INDEX "tasks_owner_due";--> statement-breakpoint
DROP INDEX "tasks_assignee_due";--> statement-breakpoint
DROP INDEX "tasks_start";--> statement-breakpoint
DROP INDEX "tasks_owner_start";--> statement-breakpoint
DROP INDEX "tasks_assignee_start";--> statement-breakpoint
DROP INDEX "tasks_completed";--> statement-breakpoint
DROP INDEX "tasks_owner_completed";--> statement-breakpoint
DROP INDEX "tasks_assignee_completed";--> statement-breakpoint
DROP INDEX "tasks_priority";--> statement-breakpoint
DROP INDEX "tasks_owner_priority";--> statement-breakpoint
DROP INDEX "tasks_assignee_priority";--> statement-breakpoint
DROP INDEX "tasks_status";--> statement-breakpoint
DROP INDEX "tasks_owner_status";--> statement-breakpoint
DROP INDEX "tasks_assignee_status";--> statement-breakpoint
DROP INDEX "tasks_title";--> statement-breakpoint
DROP INDEX "tasks_owner_title";--> statement-breakpoint
DROP INDEX "tasks_assignee_title";--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "deleted_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "changed_in" "xid8" DEFAULT pg_current_xact_id() NOT NULL;--> statement-breakpoint
CREATE INDEX "task_departures_changes" ON "task_departures" USING btree ("user_id","changed_in","task_id");--> statement-breakpoint
CREATE INDEX "task_departures_age" ON "task_departures" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "tasks_owner" ON "tasks" USING btree ("owner_id");--> statement-breakpoint
CREATE INDEX "tasks_assignee" ON "tasks" USING btree ("assignee_id");--> statement-breakpoint
CREATE INDEX "tasks_trash" ON "tasks" USING btree ("deleted_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is not null;--> statement-breakpoint
CREATE INDEX "tasks_owner_trash" ON "tasks" USING btree ("owner_id","deleted_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is not null;--> statement-breakpoint
CREATE INDEX "tasks_changes" ON "tasks" USING btree ("changed_in","id") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_changes" ON "tasks" USING btree ("owner_id","changed_in","id") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_changes" ON "tasks" USING btree ("assignee_id","changed_in","id") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_newest" ON "tasks" USING btree ("created_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_newest" ON "tasks" USING btree ("owner_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_newest" ON "tasks" USING btree ("assignee_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_updated" ON "tasks" USING btree ("updated_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_updated" ON "tasks" USING btree ("owner_id","updated_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_updated" ON "tasks" USING btree ("assignee_id","updated_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_due" ON "tasks" USING btree ("due_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_due" ON "tasks" USING btree ("owner_id","due_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_due" ON "tasks" USING btree ("assignee_id","due_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_start" ON "tasks" USING btree ("start_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_start" ON "tasks" USING btree ("owner_id","start_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_start" ON "tasks" USING btree ("assignee_id","start_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_completed" ON "tasks" USING btree ("completed_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_completed" ON "tasks" USING btree ("owner_id","completed_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_completed" ON "tasks" USING btree ("assignee_id","completed_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_priority" ON "tasks" USING btree ((array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_priority" ON "tasks" USING btree ("owner_id",(array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_priority" ON "tasks" USING btree ("assignee_id",(array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_status" ON "tasks" USING btree ((array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_status" ON "tasks" USING btree ("owner_id",(array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_status" ON "tasks" USING btree ("assignee_id",(array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_title" ON "tasks" USING btree ((left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_owner_title" ON "tasks" USING btree ("owner_id",(left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_assignee_title" ON "tasks" USING btree ("assignee_id",(left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST) WHERE "tasks"."deleted_at" is null;