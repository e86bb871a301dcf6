/* imports.take */
      with next as materialized (
        select "row"."id" from imports row
        where (("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and coalesce("row"."leased_until" <= now(), true)) and (
  (select count(*) from (
  select requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select user_id from imports where lease_id is not null and leased_until > now()
) running) < 2 and not exists (select from (
  select requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select user_id from imports where lease_id is not null and leased_until > now()
) running where running.user_id = "row"."user_id"))
          and "row"."user_id" = coalesce($1::uuid, "row"."user_id")
          and not exists (
            select from imports other where ("other"."status" in ('reading', 'running', 'undoing', 'discarding')) and "other"."user_id" = "row"."user_id" and ("other"."status" <> 'discarding', "other"."updated_at", "other"."id") < ("row"."status" <> 'discarding', "row"."updated_at", "row"."id"))
        order by ("row"."status" <> 'discarding', "row"."updated_at", "row"."id") limit 1 for update of row skip locked
      ), taken as (update "imports" "row" set "done" = 0, "total" = null, "attempts" = "row"."attempts" + 1, "lease_id" = $2::uuid, "leased_until" = now() + $3::int * interval '1 millisecond' from next where "row"."id" = next.id returning "row"."id")
      select taken.id::text from taken;
