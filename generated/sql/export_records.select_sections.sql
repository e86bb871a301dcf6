/* export_records.select_sections */
    select (select row_to_json(fields)::text from (select 'section' as type, "section"."id" as id, "section"."project_id" as project_id, "section"."name" as name) fields) as json, ("section"."project_id"::text || "section"."position" || ' ' || "section"."id"::text) collate "C" as key from sections section
    where "section"."project_id" = any($1::uuid[]) and exists (
select from projects project
where "project"."id" = "section"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or (select $3::bool)))) and ("section"."project_id"::text || "section"."position" || ' ' || "section"."id"::text) collate "C" > $4::text order by ("section"."project_id"::text || "section"."position" || ' ' || "section"."id"::text) collate "C" limit 200;
