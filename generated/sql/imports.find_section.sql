/* imports.find_section */
select id::text from sections where project_id = $1::uuid and name = $2::text order by position, id limit 1;
