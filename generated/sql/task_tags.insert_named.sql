/* task_tags.insert_named */
  insert into task_tags (task_id, tag_id)
  select distinct named.task_id, tag.id from
jsonb_to_recordset($1::jsonb -> 'rows') as named (task_id uuid, id uuid, name text, canonical_name text, project_id uuid) join tags tag
    on tag.canonical_name = named.canonical_name and tag.deleted_at is null and tag.project_id is not distinct from named.project_id
    and (named.project_id is not null or tag.owner_id = $2::uuid)
  order by named.task_id, tag.id on conflict do nothing;
