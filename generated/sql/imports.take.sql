/* imports.take */
with turn as materialized (
  select pg_try_advisory_xact_lock(hashtextextended('imports', 0)) as is_ours
), next as materialized (
  select "row"."id" from turn join imports row on turn.is_ours
    join users person on "person"."id" = "row"."user_id" and "person"."deleted_at" is null and not "person"."is_disabled"
  where ("row"."status" in ('reading', 'running', 'undoing')) and coalesce("row"."leased_until" <= now(), true) and "row"."id" = coalesce($1::uuid, "row"."id")
    and (select count(*) from imports other where ("other"."status" in ('reading', 'running', 'undoing')) and "other"."lease_id" is not null and not coalesce("other"."leased_until" <= now(), true)) < 2
    and not exists (select from imports other where ("other"."status" in ('reading', 'running', 'undoing')) and "other"."lease_id" is not null and not coalesce("other"."leased_until" <= now(), true) and "other"."user_id" = "row"."user_id")
  order by "row"."created_at" limit 1 for update of row skip locked
), taken as (update "imports" "row" set "done" = 0, "total" = null, "attempts" = "row"."attempts" + 1, "lease_id" = $2::uuid, "leased_until" = now() + $3::int * interval '1 millisecond' from next where "row"."id" = next.id returning "row"."id")
select taken.id::text from taken;
