/* imports.delete_old */ with changed as (delete from "imports" where ctid = any(array(
select ctid from "imports" where "imports"."id" in (select "row"."id" from imports row where (not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and (
"row"."deleted_at" is not null or "row"."created_at" <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - make_interval(days => $1::int)))) limit 1 for update skip locked)) returning 1) select count(*) as changed from changed;
