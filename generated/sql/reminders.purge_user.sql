/* reminders.purge_user */ with changed as (delete from "reminders" where ctid = any(array(
select ctid from "reminders" where user_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
