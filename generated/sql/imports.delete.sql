/* imports.delete */
with file as (
  insert into file_deletions (storage_key)
  select "row"."storage_key" from imports row where "row"."id" = $1::uuid and "row"."storage_key" is not null
), upload as (
  delete from uploads where "uploads"."import_id" = $1::uuid
)
update imports row set deleted_at = now(), storage_key = null,
  lease_id = case when "row"."status" in ('undoing', 'discarding') then "row"."lease_id" end,
  leased_until = case when "row"."status" in ('undoing', 'discarding') then "row"."leased_until" end,
  status = case when "row"."status" in ('undoing', 'discarding') then "row"."status" when "row"."status" = 'running' then 'discarding' else 'cancelled' end
where "row"."id" = $1::uuid;
