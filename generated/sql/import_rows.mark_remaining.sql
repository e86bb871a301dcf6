/* import_rows.mark_remaining */ with
live as not materialized (
  select task.id from tasks task left join projects project on project.id = task.project_id
  where task.deleted_at is null and project.deleted_at is null
), other as materialized (
  select id, case type
    when 'project' then exists (select from projects where id = resource_id and deleted_at is null)
    when 'section' then exists (
      select from sections section join projects project on project.id = section.project_id and project.deleted_at is null
      where section.id = resource_id)
    when 'task' then exists (select from live where live.id = resource_id)
    when 'comment' then exists (select from comments comment join live on live.id = comment.task_id where comment.id = resource_id)
    when 'attachment' then exists (
      select from attachments attachment join live on live.id = attachment.task_id where attachment.id = resource_id)
    else resource_id in (
      select relation.id from import_records record join task_relations relation on relation.task_id = record.resource_id
        join live on live.id = relation.task_id join tasks task on task.id = relation.other_task_id and task.deleted_at is null
      where record.import_id = $1::uuid and record.type = 'task')
    end as is_there
  from import_rows where import_id = $1::uuid and outcome = 'created' limit 1000
), changed as (
update import_rows row set outcome = case when other.is_there then 'kept' else 'undone' end,
  code = case when other.is_there then 'changed' end,
  message = case when other.is_there then 'What it belongs to stays.' end
from other where row.id = other.id returning 1) select count(*) as changed from changed;
