/* webhooks.update_seals */
update webhooks set secret = $1::bytea, previous_secret = nullif($2::bytea, '') where id = $3::uuid and secret = $4::bytea;
