/* comments.purge_author */ with changed as (
    update comments set author_id = null, version = version + 1
    where ctid = any(array(
select ctid from "comments" where author_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
