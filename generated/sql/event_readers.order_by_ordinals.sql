/* event_readers.order_by_ordinals */
update event_readers reader set ordinal = least(reader.ordinal, (
    select min(event.ordinal) - 1 from events event
    where (event.changed_in, event.ordinal) > (reader.changed_in, reader.ordinal)
      and event.changed_in >= pg_snapshot_xmax(pg_current_snapshot()))) where reader.changed_in > pg_snapshot_xmax(pg_current_snapshot());
