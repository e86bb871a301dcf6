/* uploads.delete_leased */ delete from uploads where uploads.id = $1::uuid and uploads.lease_id = $2::uuid;
