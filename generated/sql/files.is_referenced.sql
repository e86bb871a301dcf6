/* files.is_referenced */
select exists (select from attachments where "attachments"."storage_key" = $1::text)
  or exists (select from imports where "imports"."storage_key" = $1::text)
  or exists (select from uploads where "uploads"."storage_key" = $1::text) as is_referenced;
