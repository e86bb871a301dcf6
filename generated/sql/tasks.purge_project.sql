/* tasks.purge_project */ with changed as (delete from "tasks" where ctid = any(array(
select ctid from "tasks" where "tasks"."project_id" = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
