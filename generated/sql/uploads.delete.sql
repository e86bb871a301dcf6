/* uploads.delete */ delete from uploads upload where upload.id = $1::uuid and (upload.user_id = $2::uuid) returning upload.id::text;
