/* webhook_deliveries.select */
  select (select row_to_json(fields)::text from (select "delivery"."id" as id, "delivery"."webhook_id" as webhook_id, "delivery"."sequence" as sequence, "delivery"."event_id" as event_id, "delivery"."event_type" as event_type, "delivery"."status" as status, "delivery"."attempts" as attempts, case when "delivery"."status" = 'pending' then to_char("delivery"."due_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') end as next_attempt_at, to_char("delivery"."attempted_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as attempted_at, "delivery"."duration_ms" as duration_ms, "delivery"."response_status" as response_status, "delivery"."response_body" as response_body, "delivery"."error" as error, to_char("delivery"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("delivery"."ended_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended_at) fields) as json from webhook_deliveries delivery
  where "delivery"."id" = $1::uuid and "delivery"."webhook_id" = $2::uuid and exists (
select from webhooks webhook where "webhook"."id" = $2::uuid and ("webhook"."deleted_at" is null and (("webhook"."owner_id" = $3::uuid and "webhook"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $3::uuid and "membership"."project_id" = "webhook"."project_id"
  and "membership"."role" in ('manager') offset 0) or ((select $4::bool) and case
when "webhook"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["webhook"."owner_id"])
else exists (select from projects where "projects"."id" = "webhook"."project_id" and "projects"."deleted_at" is null offset 0) end))));
