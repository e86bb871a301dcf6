/* tasks.purge_assignee */ with changed as (
  update tasks set assignee_id = null where ctid = any(array(
select ctid from tasks where tasks.assignee_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
