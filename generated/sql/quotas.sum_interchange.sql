/* quotas.sum_interchange */ select (select coalesce(sum(size), 0)::int8 from (
select "exports"."size" from exports where "exports"."requested_by" = $1::uuid and "exports"."storage_key" is not null
union all select "imports"."size" from imports where "imports"."user_id" = $1::uuid and "imports"."storage_key" is not null
union all select "uploads"."upload_length" from uploads
  where "uploads"."user_id" = $1::uuid and "uploads"."task_id" is null and "uploads"."import_id" is null and "uploads"."expires_at" > now()) file) as bytes;
