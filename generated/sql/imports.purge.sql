/* imports.purge */ with changed as (delete from "imports" where ctid = any(array(
select ctid from "imports" where "imports"."id" in (select "row"."id" from imports row where ("row"."deleted_at" is not null and not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')))) limit 1 for update skip locked)) returning 1) select count(*) as changed from changed;
