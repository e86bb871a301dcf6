/* import_records.leave */ with changed as (
  update import_records set import_id = null where ctid = any(array(
select ctid from "import_records" where "import_records"."import_id" in (select "row"."id" from imports row where ("row"."deleted_at" is not null and not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')))) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
