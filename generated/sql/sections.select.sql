/* sections.select */ select (select row_to_json(fields)::text from (select "section"."id" as id, "section"."project_id" as project_id, "section"."name" as name, "section"."position" as position, "section"."version" as version, "section"."version" as revision, to_char("section"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("section"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, "section"."version" from
sections section join projects project on "project"."id" = "section"."project_id"
where "section"."id" = $1::uuid and "section"."project_id" = $2::uuid and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or (select $4::bool)));
