/* notifications.insert_begin */ insert into event_readers (name, changed_in, ordinal) values ('notifications', pg_snapshot_xmin(pg_current_snapshot()), 0) on conflict do nothing;
