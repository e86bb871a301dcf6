/* uploads.end_lease */
update uploads set lease_id = null, leased_until = null
where uploads.id = $1::uuid and uploads.lease_id = $2::uuid;
