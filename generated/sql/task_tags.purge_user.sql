/* task_tags.purge_user */
select link.task_id::text, link.tag_id::text from task_tags link join tasks task on task.id = link.task_id
where "link"."tag_id" in (select id from tags where "tags"."owner_id" = $1::uuid and "tags"."deleted_at" is not null) limit 100
for no key update of task, link skip locked;
