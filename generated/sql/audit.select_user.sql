/* audit.select_user */ select $1::uuid::text as owner_id where $1::uuid <> $2::uuid;
