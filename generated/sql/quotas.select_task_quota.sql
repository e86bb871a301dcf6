/* quotas.select_task_quota */ select case when owner.task_quota is null then $1::bigint else nullif(owner.task_quota, 0) end as quota from users owner where owner.id = $2::uuid;
