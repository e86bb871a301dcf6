/* imports.delete_old */ with
  old as materialized (
    select "row"."id", "row"."storage_key" from imports row
    where "row"."deleted_at" is null and "row"."created_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - make_interval(days => $1::int) and not ("row"."status" in ('reading', 'running', 'undoing', 'discarding'))
    limit 100 for update skip locked
  ), file as (
    insert into file_deletions (storage_key) select storage_key from old where storage_key is not null
  ), changed as (update "imports" "row" set "storage_key" = null, "deleted_at" = now() from old where "row"."id" = old.id returning 1) select count(*) as changed from changed;
