/* tags.purge_user */ with changed as (delete from "tags" where ctid = any(array(
select ctid from "tags" where
    "tags"."owner_id" = $1::uuid and "tags"."deleted_at" is not null and not exists (select from task_tags where "task_tags"."tag_id" = "tags"."id") limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
