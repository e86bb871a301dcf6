/* purge.select_users */ select id::text from users where "users"."deleted_at" is not null;
