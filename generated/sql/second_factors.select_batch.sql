/* second_factors.select_batch */
select "factor"."user_id"::text, "factor"."secret" from second_factors factor
where "factor"."user_id" > $1::uuid order by "factor"."user_id" limit $2::int;
