/* task_tags.purge_tag */
select link.task_id::text, link.tag_id::text from task_tags link join tasks task on task.id = link.task_id
where "link"."tag_id" = $1::uuid limit 100
for no key update of task, link skip locked;
