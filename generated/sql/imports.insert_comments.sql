/* imports.insert_comments */
insert into comments (id, task_id, author_id, author_name, body, created_at, edited_at)
select row.id, row.task_id, row.author_id, row.author_name, row.body, coalesce(case when row.created_at is not null then least(row.created_at, now()) end, now()), case when row.edited_at is not null then least(row.edited_at, now()) end
from jsonb_to_recordset($1::jsonb -> 'rows') as row (
  id uuid, task_id uuid, author_id uuid, author_name text, body text, created_at timestamptz, edited_at timestamptz);
