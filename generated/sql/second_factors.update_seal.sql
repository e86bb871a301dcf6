/* second_factors.update_seal */
update second_factors set secret = $1::bytea
where user_id = $2::uuid and secret = $3::bytea;
