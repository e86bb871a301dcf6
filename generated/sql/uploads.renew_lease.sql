/* uploads.renew_lease */
update uploads set leased_until = now() + interval '5 seconds' where uploads.id = $1::uuid and uploads.lease_id = $2::uuid
returning uploads.id::text;
