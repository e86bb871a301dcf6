/* invitations.select_has */
select "invitation"."id"::text from invitations invitation join projects project on "project"."id" = "invitation"."project_id"
where "invitation"."hash" = $1::bytea and ("invitation"."expires_at" > now() and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "invitation"."invited_by" and "membership"."project_id" = "project"."id"
  and "membership"."role" in ('manager') offset 0) or exists (
    select from users where "users"."id" = "invitation"."invited_by" and "users"."role" = 'admin' and "users"."deleted_at" is null))));
