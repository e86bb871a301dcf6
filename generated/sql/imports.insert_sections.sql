/* imports.insert_sections */
insert into sections (id, project_id, name, position) select row.id, row.project_id, row.name, row.position
from jsonb_to_recordset($1::jsonb -> 'rows') as row (id uuid, project_id uuid, name text, position text);
