/* webhook_deliveries.purge_user */ with changed as (delete from "webhook_deliveries" where ctid = any(array(
select ctid from "webhook_deliveries" where webhook_id in (select id from webhooks where "webhooks"."owner_id" = $1::uuid) limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
