/* users.select_id_by_name */
select "person"."id"::text from users person
where ("person"."username" = $1::text or "person"."email" = $2::text) and "person"."deleted_at" is null;
