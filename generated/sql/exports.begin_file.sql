/* exports.begin_file */ with changed as (
update exports row set writing_key = $1::text
where "row"."id" = $2::uuid and "row"."lease_id" = $3::uuid and "row"."status" = 'running' returning 1) select count(*) as changed from changed;
