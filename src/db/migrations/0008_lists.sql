ALTER TABLE "tasks" ALTER COLUMN "title_folded" SET DEFAULT '';--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "search" "tsvector" DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE INDEX "tasks_updated" ON "tasks" USING btree ("updated_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_updated" ON "tasks" USING btree ("owner_id","updated_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_updated" ON "tasks" USING btree ("assignee_id","updated_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_due" ON "tasks" USING btree ("due_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_due" ON "tasks" USING btree ("owner_id","due_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_due" ON "tasks" USING btree ("assignee_id","due_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_start" ON "tasks" USING btree ("start_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_start" ON "tasks" USING btree ("owner_id","start_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_start" ON "tasks" USING btree ("assignee_id","start_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_completed" ON "tasks" USING btree ("completed_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_completed" ON "tasks" USING btree ("owner_id","completed_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_completed" ON "tasks" USING btree ("assignee_id","completed_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_priority" ON "tasks" USING btree ((array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_priority" ON "tasks" USING btree ("owner_id",(array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_priority" ON "tasks" USING btree ("assignee_id",(array_position('{none,low,medium,high,urgent}'::text[], "priority")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_status" ON "tasks" USING btree ((array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_status" ON "tasks" USING btree ("owner_id",(array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_status" ON "tasks" USING btree ("assignee_id",(array_position('{todo,in_progress,done,cancelled}'::text[], "status")) desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_title" ON "tasks" USING btree ((left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_owner_title" ON "tasks" USING btree ("owner_id",(left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_assignee_title" ON "tasks" USING btree ("assignee_id",(left("title_folded", 100) collate "C") desc nulls last,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "tasks_search" ON "tasks" USING gin ("search");