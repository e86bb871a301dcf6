/* imports.lock_sections */ select id::text from sections where id = any((select $1::uuid[])::uuid[]) order by id for key share;
