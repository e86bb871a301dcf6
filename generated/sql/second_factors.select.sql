/* second_factors.select */ select factor.user_id::text, factor.secret, factor.confirmed_at is not null as is_confirmed from second_factors factor where user_id = $1::uuid;
