/* attempts.count */
with counted as (insert into "attempts" ("key", "failures", "last_failed_at", "delayed_until") values ($1::bytea, 1, now(), '-infinity') on conflict ("key") do update set "failures" = case when "attempts"."last_failed_at" < now() - interval '1 day' then 1 else "attempts"."failures" + 1 end, "last_failed_at" = now(), "delayed_until" =
      case when case when "attempts"."last_failed_at" < now() - interval '1 day' then 1 else "attempts"."failures" + 1 end < $2::int then '-infinity' else now() + least(900, 5 * 2 ^ least(case when "attempts"."last_failed_at" < now() - interval '1 day' then 1 else "attempts"."failures" + 1 end - $2::int, 20)) * interval '1 second' end where "attempts"."delayed_until" <= now() or "attempts"."delayed_until" > now() + 900 * interval '1 second' + interval '1 minute' returning "key")
select case when exists (select from counted) then 0
  else coalesce((
    select greatest(1, ceil(extract(epoch from delayed_until) - extract(epoch from now())))::int
    from attempts where key = $1::bytea
  ), 1) end as wait;
