/* imports.show_projects */
with shown as (
  update projects set deleted_at = null, filling_import_id = null, visible_in = pg_current_xact_id(), is_redelivering = true, version = version + 1
  where id = any((select $1::uuid[])::uuid[]) returning id, version
), recorded as (
  update import_records record set version = shown.version from shown
  where record.import_id = $2::uuid and record.type = 'project' and record.resource_id = shown.id
)
select count(record_event('project.created', null, id, null, null, null, '{}', '{}')) as shown from shown;
