/* imports.insert_projects */
insert into projects (id, name, description, color, archived_at, metadata, external_source, external_id, created_at, deleted_at)
select row.id, row.name, row.description, row.color, least(row.archived_at, now()), row.metadata, row.external_source, row.external_id,
  coalesce(least(row.created_at, now()), now()), now()
from jsonb_to_recordset($1::jsonb -> 'rows') as row (
  id uuid, name text, description text, color text, archived_at timestamptz, metadata jsonb, external_source text,
  external_id text, created_at timestamptz);
