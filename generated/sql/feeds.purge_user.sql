/* feeds.purge_user */ with changed as (delete from "feeds" where ctid = any(array(
select ctid from "feeds" where owner_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
