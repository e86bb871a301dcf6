/* second_factors.select_state */
select "factor"."confirmed_at" is not null as is_enabled, to_char("factor"."confirmed_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as confirmed_at,
  (select count(*)::int from recovery_codes where "recovery_codes"."user_id" = $1::uuid) as recovery_codes_left
from (select) one left join second_factors factor on "factor"."user_id" = $1::uuid;
