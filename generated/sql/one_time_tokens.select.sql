/* one_time_tokens.select */
select token.user_id::text from one_time_tokens token
where (token.hash = $1::bytea and token.purpose = $2::text and token.expires_at > now());
