/* purge.select_tags */ select id::text from tags where "tags"."deleted_at" is not null;
