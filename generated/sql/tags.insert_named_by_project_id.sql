/* tags.insert_named_by_project_id */
    insert into tags (id, name, canonical_name, owner_id, project_id)
    select distinct on (project_id, canonical_name) id, name, canonical_name, $1::uuid, project_id
    from
jsonb_to_recordset($2::jsonb -> 'rows') as named (task_id uuid, id uuid, name text, canonical_name text, project_id uuid) where project_id is not null order by project_id, canonical_name
    on conflict (project_id, canonical_name) where deleted_at is null and project_id is not null
      do update set canonical_name = excluded.canonical_name;
