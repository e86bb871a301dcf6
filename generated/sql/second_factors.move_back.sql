/* second_factors.move_back */
update second_factors set last_step = floor(extract(epoch from now()) / 30)::bigint
where second_factors.last_step > floor(extract(epoch from now()) / 30)::bigint + 2;
