/* tasks.transfer */ with changed as (
update tasks set owner_id = handed.heir_id from (
  select tasks.id, heir.id as heir_id from tasks cross join lateral (
    select person.id from project_grants granted join users person on person.id = granted.user_id
    where granted.project_id = tasks.project_id and person.deleted_at is null
    order by role_rank(granted.role) desc, person.id limit 1 for key share of person skip locked
  ) heir
  where tasks.owner_id = $1::uuid and tasks.project_id is not null and true
  limit 100 for no key update of tasks skip locked
) handed where tasks.id = handed.id returning 1) select count(*) as changed from changed;
