/* import_rows.delete_old */ with changed as (delete from "import_rows" where ctid = any(array(
select ctid from "import_rows" where "import_rows"."import_id" in (select "row"."id" from imports row where (not ("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and (
"row"."deleted_at" is not null or "row"."created_at" <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - make_interval(days => $1::int)))) limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
