/* events.record_tags_of_new */
select count(record_event('task.tagged', task.id, task.project_id, task.owner_id, task.assignee_id, tag.id, '{}',
  jsonb_build_object('tag', jsonb_build_object('id', tag.id, 'name', tag.name)))::text)
from tasks task join task_tags link on link.task_id = task.id join tags tag on tag.id = link.tag_id
where task.id = any((select $1::uuid[])::uuid[]);
