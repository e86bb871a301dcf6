/* task_followers.purge_user */ with changed as (delete from "task_followers" where ctid = any(array(
select ctid from "task_followers" where user_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
