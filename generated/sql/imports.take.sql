/* imports.take */
      with next as materialized (
        select "row"."id" from imports row
        where (("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and coalesce("row"."leased_until" <= now(), true)) and (
  (select count(*) < 3 and count(*) filter (where running.kind = 'import') < 2 from (
  select 'export' as kind, requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select 'import', user_id from imports where lease_id is not null and leased_until > now()
) running)
  and not exists (select from (
  select 'export' as kind, requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select 'import', user_id from imports where lease_id is not null and leased_until > now()
) running where running.user_id = "row"."user_id"))
          and "row"."user_id" = coalesce($1::uuid, "row"."user_id")
          and not exists (
            select from imports other where ("other"."status" in ('reading', 'running', 'undoing', 'discarding')) and "other"."user_id" = "row"."user_id" and ("other"."status" <> 'discarding', "other"."updated_at", "other"."id") < ("row"."status" <> 'discarding', "row"."updated_at", "row"."id"))
        order by (
  (select coalesce(sum("used_export"."renewals"), 0) from exports used_export
    where "used_export"."requested_by" = "row"."user_id" and (("used_export"."status" in ('waiting', 'running')) or "used_export"."updated_at" > now() - interval '1 hour'))
  + (select coalesce(sum("used_import"."renewals"), 0) from imports used_import
    where "used_import"."user_id" = "row"."user_id" and (("used_import"."status" in ('reading', 'running', 'undoing', 'discarding')) or "used_import"."updated_at" > now() - interval '1 hour'))), ("row"."status" <> 'discarding', "row"."updated_at", "row"."id") limit 1 for update of row skip locked
      ), taken as (update "imports" "row" set "done" = 0, "total" = null, "attempts" = "row"."attempts" + 1, "renewals" = "row"."renewals" + 1, "lease_id" = $2::uuid, "leased_until" = now() + $3::int * interval '1 millisecond' from next where "row"."id" = next.id returning "row"."id")
      select taken.id::text from taken;
