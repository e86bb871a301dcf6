/* quotas.count_owned_tasks */
select quota, case when quota is null then 0 else (select count(*) from (select from tasks where owner_id = $1::uuid limit quota + 1) owned) end as tasks
from (select case when owner.task_quota is null then $2::bigint else nullif(owner.task_quota, 0) end as quota from users owner where owner.id = $1::uuid) owner;
