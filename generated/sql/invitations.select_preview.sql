/* invitations.select_preview */
  select (select row_to_json(fields)::text from (select "project"."name" as project_name, "invitation"."role" as role, "sender"."display_name" as invited_by_name, $1::bool as can_register, to_char("invitation"."expires_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at) fields) as json
  from invitations invitation join projects project on "project"."id" = "invitation"."project_id"
    join users sender on "sender"."id" = "invitation"."invited_by"
  where "invitation"."hash" = $2::bytea and ("invitation"."expires_at" > now() and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "invitation"."invited_by" and "membership"."project_id" = "project"."id"
  and "membership"."role" in ('manager') offset 0) or exists (
    select from users where "users"."id" = "invitation"."invited_by" and "users"."role" = 'admin' and "users"."deleted_at" is null))));
