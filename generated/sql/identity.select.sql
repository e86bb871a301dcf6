/* identity.select */
  select (
(select system_identifier from pg_control_system()) || '/' ||
(select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid) as database, pg_snapshot_xmax(pg_current_snapshot())::text as transaction;
