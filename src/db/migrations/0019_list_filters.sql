-- Keeps writes of tasks waiting, and reads only for the last moment: 7 s for 1,000,000 rows.
ALTER INDEX "tasks_newest" RENAME TO "tasks_newest_alone";--> statement-breakpoint
ALTER INDEX "tasks_updated" RENAME TO "tasks_updated_alone";--> statement-breakpoint
ALTER INDEX "tasks_due" RENAME TO "tasks_due_alone";--> statement-breakpoint
ALTER INDEX "tasks_start" RENAME TO "tasks_start_alone";--> statement-breakpoint
ALTER INDEX "tasks_completed" RENAME TO "tasks_completed_alone";--> statement-breakpoint
ALTER INDEX "tasks_priority" RENAME TO "tasks_priority_alone";--> statement-breakpoint
ALTER INDEX "tasks_status" RENAME TO "tasks_status_alone";--> statement-breakpoint
ALTER INDEX "tasks_title" RENAME TO "tasks_title_alone";--> statement-breakpoint
CREATE INDEX "tasks_newest" ON "tasks" USING btree ("created_at" DESC NULLS LAST,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_updated" ON "tasks" USING btree ("updated_at" DESC NULLS LAST,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_due" ON "tasks" USING btree ("due_at" DESC NULLS LAST,"id" DESC NULLS LAST,"status","priority","attachment_count") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_start" ON "tasks" USING btree ("start_at" DESC NULLS LAST,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_completed" ON "tasks" USING btree ("completed_at" DESC NULLS LAST,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_priority" ON "tasks" USING btree ((array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_status" ON "tasks" USING btree ((array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "tasks_title" ON "tasks" USING btree ((left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST,"status","priority","attachment_count","due_at") WHERE "tasks"."deleted_at" is null;--> statement-breakpoint
DROP INDEX "tasks_newest_alone";--> statement-breakpoint
DROP INDEX "tasks_updated_alone";--> statement-breakpoint
DROP INDEX "tasks_due_alone";--> statement-breakpoint
DROP INDEX "tasks_start_alone";--> statement-breakpoint
DROP INDEX "tasks_completed_alone";--> statement-breakpoint
DROP INDEX "tasks_priority_alone";--> statement-breakpoint
DROP INDEX "tasks_status_alone";--> statement-breakpoint
DROP INDEX "tasks_title_alone";
