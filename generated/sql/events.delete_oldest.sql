/* events.delete_oldest */ with changed as (
  delete from events where ctid = any(array(
    select place from (
      select "event".ctid as place, "event"."created_at" from events event
      order by "event"."changed_in", "event"."ordinal" limit 500
    ) oldest where created_at <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - make_interval(days => $1::int)))
  returning 1) select count(*) as changed from changed;
