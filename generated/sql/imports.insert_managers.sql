/* imports.insert_managers */
insert into project_members (project_id, user_id, role) select id, $1::uuid, 'manager' from unnest($2::uuid[]) project (id);
