/* second_factors.select_of_challenge */
select factor.user_id::text, factor.secret, factor.confirmed_at is not null as is_confirmed from one_time_tokens token join second_factors factor on factor.user_id = token.user_id
where (token.hash = $1::bytea and token.purpose = 'sign_in' and token.expires_at > now()) and factor.confirmed_at is not null;
