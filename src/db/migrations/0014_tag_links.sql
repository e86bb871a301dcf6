DROP INDEX "task_tags_tag";--> statement-breakpoint
CREATE INDEX "task_tags_tag" ON "task_tags" USING btree ("tag_id","task_id");