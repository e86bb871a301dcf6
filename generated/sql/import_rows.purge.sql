/* import_rows.purge */ with changed as (delete from "import_rows" where ctid = any(array(
select ctid from "import_rows" where "import_rows"."import_id" in (select "row"."id" from imports row where ("row"."deleted_at" is not null and not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')))) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
