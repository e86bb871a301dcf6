/* trash.purge_projects */
  update projects set purged_at = now()
  where projects.deleted_at <
coalesce((select least(now(), retention.seen_at + interval '2 hours') - retention.unconfirmed from retention), now()) - make_interval(days => $1::int) and projects.purged_at is null;
