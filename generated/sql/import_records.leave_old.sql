/* import_records.leave_old */ with changed as (
  update import_records set import_id = null where ctid = any(array(
select ctid from "import_records" where "import_records"."import_id" in (select "row"."id" from imports row where (not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and (
"row"."deleted_at" is not null or "row"."created_at" <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - make_interval(days => $1::int)))) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
