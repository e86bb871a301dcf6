/* files.is_kept */
  select exists (select from attachments where "attachments"."storage_key" = $1::text)
    or exists (select from imports where "imports"."storage_key" = $1::text)
    or exists (select from uploads where "uploads"."storage_key" = $1::text)
    or exists (
select from leases where starts_with("leases"."name", 'file_hold/') and "leases"."expires_at" > now()
  and "leases"."expires_at" <= now() + interval '60 minutes' + interval '1 minute') as is_kept;
