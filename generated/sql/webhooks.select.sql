/* webhooks.select */
  select (select row_to_json(fields)::text from (select "webhook"."id" as id, "webhook"."owner_id" as owner_id, "webhook"."project_id" as project_id, "webhook"."url" as url, "webhook"."description" as description, "webhook"."event_types" as event_types, "webhook"."is_enabled" as is_enabled, "webhook"."disabled_reason" as disabled_reason, to_char("webhook"."failing_since" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as failing_since, to_char("webhook"."previous_secret_until" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as previous_secret_until, "webhook"."version" as version, ("webhook"."version" + "webhook"."side_changes") as revision, to_char("webhook"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("webhook"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json
  from webhooks webhook where "webhook"."id" = $1::uuid and ("webhook"."deleted_at" is null and (("webhook"."owner_id" = $2::uuid and "webhook"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "webhook"."project_id"
  and "membership"."role" in ('manager') offset 0) or ((select $3::bool) and case
when "webhook"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["webhook"."owner_id"])
else exists (select from projects where "projects"."id" = "webhook"."project_id" and "projects"."deleted_at" is null offset 0) end)));
