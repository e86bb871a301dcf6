/* leases.insert */
insert into leases (name, holder, expires_at) values ($1::text, $2::uuid, now() + $3::int * interval '1 millisecond')
on conflict (name) do update set holder = case when leases.expires_at <= now() then excluded.holder else leases.holder end, expires_at = excluded.expires_at where leases.expires_at <= now() or leases.expires_at > excluded.expires_at
returning leases.holder = $2::uuid as is_taken;
