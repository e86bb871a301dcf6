/* change_history.record_origin */
  with other as (
    select from change_history where origin <> (
(select system_identifier from pg_control_system()) || '/' ||
(select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid)
  ), forgotten as (
    delete from task_tombstones where exists (select from other)
  ), forgotten_memberships as (
    delete from membership_tombstones where exists (select from other)
  )
  insert into change_history as history (origin) values ((
(select system_identifier from pg_control_system()) || '/' ||
(select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid))
  on conflict (singleton) do update set
    origin = excluded.origin,
    epoch = case when exists (select from other) then floor(random() * 2147483647)::int else "history"."epoch" end,
    pruned_through = case when exists (select from other) then '0' else "history"."pruned_through" end
  returning origin as database, pg_current_xact_id()::text as transaction;
