/* recovery_codes.insert */
insert into recovery_codes (hash, user_id)
select decode(code.hash, 'hex'), $1::uuid from unnest($2::text[]) as code (hash);
