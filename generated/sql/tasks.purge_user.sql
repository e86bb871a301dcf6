/* tasks.purge_user */ with changed as (delete from tasks where ctid = any(array(
select ctid from tasks where tasks.owner_id = $1::uuid and tasks.project_id is null limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
