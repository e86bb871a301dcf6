/* imports.delete */
with file as (
  insert into file_deletions (storage_key)
  select "row"."storage_key" from imports row where "row"."id" = $1::uuid and "row"."storage_key" is not null
), upload as (
  delete from uploads where "uploads"."import_id" = $1::uuid
)
update imports row set deleted_at = now(), storage_key = null, status = 'cancelled', lease_id = null, leased_until = null
where "row"."id" = $1::uuid;
