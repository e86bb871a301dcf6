/* webhook_deliveries.check_webhook */ select exists (
select from webhooks webhook where "webhook"."id" = $1::uuid and ("webhook"."deleted_at" is null and (("webhook"."owner_id" = $2::uuid and "webhook"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "webhook"."project_id"
  and "membership"."role" in ('manager') offset 0) or ((select $3::bool) and case
when "webhook"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["webhook"."owner_id"])
else exists (select from projects where "projects"."id" = "webhook"."project_id" and "projects"."deleted_at" is null offset 0) end)))) as is_visible;
