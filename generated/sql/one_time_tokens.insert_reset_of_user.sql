/* one_time_tokens.insert_reset_of_user */
insert into one_time_tokens (hash, purpose, user_id, email, expires_at) select $1::bytea, 'reset_password', person.id, null::text, now() + interval '1800 seconds' from users person where person.id = $2::uuid
returning user_id::text;
