/* import_records.forget_hidden */ with changed as (
  delete from import_records where ctid = any(array(
select ctid from "import_records" where "import_records"."import_id" = $1::uuid and "import_records"."type" <> 'project' and exists (select from projects project where project.id = "import_records"."project_id" and project.filling_import_id = "import_records"."import_id") limit 1000 for update skip locked)) returning 1) select count(*) as changed from changed;
