/* imports.find_sections */
select distinct on (project_id, name) id::text, project_id::text, name from sections
where (project_id, name) in (select * from unnest($1::uuid[], $2::text[])) order by project_id, name, position, id;
