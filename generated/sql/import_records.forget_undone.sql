/* import_records.forget_undone */ with changed as (
  delete from import_records where ctid = any(array(
select ctid from "import_records" where "import_records"."import_id" = $1::uuid and ("import_records"."type" not in ('project', 'task') or exists (select from projects project where project.id = "import_records"."project_id" and project.deleted_at is not null)
  or exists (select from tasks task where task.id = "import_records"."resource_id" and task.deleted_at is not null)) limit 1000 for update skip locked)) returning 1) select count(*) as changed from changed;
