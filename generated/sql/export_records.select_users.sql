/* export_records.select_users */
select (select row_to_json(fields)::text from (select 'user' as type, "person"."id" as id, case when "person"."deleted_at" is null then "person"."username" end as username, case when "person"."deleted_at" is null then "person"."display_name" else '' end as display_name) fields) as json, "person"."id"::text as key from users person
where "person"."id" = any($1::uuid[]) and "person"."id"::text > $2::text order by "person"."id"::text limit 200;
