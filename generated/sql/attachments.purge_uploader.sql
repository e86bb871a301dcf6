/* attachments.purge_uploader */ with changed as (
    update attachments set uploaded_by = null
    where ctid = any(array(
select ctid from "attachments" where uploaded_by = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
