/* imports.select_places */
select id::text, coalesce(project_id, owner_id)::text as place, deleted_at is null as is_live from tasks where id = any((select $1::uuid[])::uuid[])
order by id for no key update;
