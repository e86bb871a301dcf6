/* imports.select_hidden_projects */
select id::text from projects where filling_import_id = $1::uuid and purged_at is null order by id limit $2::int for update;
