/* imports.expire_files */ with
  old as materialized (
    select "row"."id", "row"."storage_key" from imports row
    where "row"."storage_key" is not null and "row"."file_expires_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) and not ("row"."status" in ('reading', 'running', 'undoing', 'discarding'))
    limit 100 for update skip locked
  ), marked as (update "imports" "row" set "storage_key" = null, "side_changes" = "row"."side_changes" + 1, "updated_at" = greatest(clock_timestamp(), "row"."created_at") from old where "row"."id" = old.id),
  expired as (select storage_key from old), changed as (
  insert into file_deletions (storage_key) select storage_key from expired returning 1) select count(*) as changed from changed;
