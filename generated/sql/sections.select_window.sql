/* sections.select_window */
select (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from sections item where item.project_id = project.id and item.id <> $1::uuid and ((item.position, item.id) < (anchor.position, anchor.id)
  or item.id = anchor.id and $2::text = 'after') order by item.position desc nulls last, item.id desc nulls last limit $3::int + 1) item) as previous, (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from sections item where item.project_id = project.id and item.id <> $1::uuid and ((item.position, item.id) > (anchor.position, anchor.id)
  or item.id = anchor.id and $2::text = 'before') order by item.position asc nulls first, item.id asc nulls first limit $3::int + 1) item) as next from projects project join lateral (select item.id, item.position from sections item where item.project_id = project.id and item.id <> $1::uuid and item.id = $4::uuid) anchor on true
where project.id = $5::uuid;
