/* imports.insert_projects */
insert into projects (
  id, name, description, color, archived_at, metadata, external_source, external_id, created_at, deleted_at, filling_import_id)
select row.id, row.name, row.description, row.color, case when row.archived_at is not null then least(row.archived_at, now()) end, row.metadata, row.external_source, row.external_id,
  coalesce(case when row.created_at is not null then least(row.created_at, now()) end, now()), now(), $1::uuid
from jsonb_to_recordset($2::jsonb -> 'rows') as row (
  id uuid, name text, description text, color text, archived_at timestamptz, metadata jsonb, external_source text,
  external_id text, created_at timestamptz);
