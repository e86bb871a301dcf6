/* events.restamp */ with changed as (
update events event set changed_in = '0' from (
  select event.changed_in, event.ordinal from events event
  where event.changed_in >= pg_snapshot_xmax(pg_current_snapshot()) limit 500
) ahead where (event.changed_in, event.ordinal) = (ahead.changed_in, ahead.ordinal) returning 1) select count(*) as changed from changed;
