/* purge.select_projects */ select id::text from projects where "projects"."purged_at" is not null;
