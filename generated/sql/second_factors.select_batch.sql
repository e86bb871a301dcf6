/* second_factors.select_batch */
select factor.user_id::text, factor.secret, factor.confirmed_at is not null as is_confirmed from second_factors factor where user_id > $1::uuid order by user_id limit $2::int;
