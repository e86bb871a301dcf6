/* event_readers.restamp */ with changed as (
update event_readers reader set changed_in = '0' where reader.changed_in > pg_snapshot_xmax(pg_current_snapshot()) returning 1) select count(*) as changed from changed;
