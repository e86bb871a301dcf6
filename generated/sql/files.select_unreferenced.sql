/* files.select_unreferenced */
select key as storage_key from unnest($1::text[]) key
where not exists (select from attachments where "attachments"."storage_key" = key)
  and not exists (select from uploads where "uploads"."storage_key" = key)
  and not exists (select from thumbnails where "thumbnails"."storage_key" = key)
  and not exists (select from exports where "exports"."storage_key" = key)
  and not exists (select from imports where "imports"."storage_key" = key)
  and not exists (select from exports where "exports"."status" = 'running' and "exports"."writing_key" = key)
  and not exists (select from file_deletions where "file_deletions"."storage_key" = key);
