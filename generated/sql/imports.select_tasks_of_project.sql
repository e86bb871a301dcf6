/* imports.select_tasks_of_project */
select resource_id::text as id from import_records
where import_id = $1::uuid and project_id = $2::uuid and is_made and type <> 'series';
