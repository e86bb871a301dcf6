/* trash.remove_batch */
  delete from tasks where id in (
    select id from tasks where "tasks"."deleted_at" <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - make_interval(days => $1::int)
    order by "tasks"."deleted_at" limit $2::int for update skip locked
  ) returning id::text;
