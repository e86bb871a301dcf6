/* retention.look */
insert into retention (singleton, seen_at, unconfirmed) values (true, now(), '0')
on conflict (singleton) do update set seen_at = now(), unconfirmed = case when (retention.unconfirmed
+ case when now() - retention.seen_at > interval '3 days' or now() - retention.seen_at < -interval '1 minute' then now() - retention.seen_at else '0' end) > interval '3 days' then (retention.unconfirmed
+ case when now() - retention.seen_at > interval '3 days' or now() - retention.seen_at < -interval '1 minute' then now() - retention.seen_at else '0' end) else '0' end, skipped_from = case when (retention.unconfirmed
+ case when now() - retention.seen_at > interval '3 days' or now() - retention.seen_at < -interval '1 minute' then now() - retention.seen_at else '0' end) > interval '3 days' then coalesce(retention.skipped_from, retention.seen_at) end
returning extract(epoch from retention.unconfirmed)::bigint as unconfirmed;
