/* membership_tombstones.delete_old */
    with pruned as (
      delete from "membership_tombstones" where ctid = any(array(
        select ctid from "membership_tombstones"
        where "membership_tombstones"."created_at" <
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - make_interval(days => $1::int) limit $2::int))
      returning "membership_tombstones"."left_in" as ended_in
    ), noted as (
      insert into change_history as history (pruned_through)
      select ended_in from pruned order by ended_in desc limit 1
      on conflict (singleton) do update set pruned_through = greatest("history"."pruned_through", excluded.pruned_through)
    )
    select count(*) as pruned from pruned;
