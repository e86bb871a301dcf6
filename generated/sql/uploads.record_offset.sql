/* uploads.record_offset */
update uploads set upload_offset = $1::bigint, leased_until = now() + interval '5 seconds', expires_at = now() + interval '24 hours' where uploads.id = $2::uuid and uploads.lease_id = $3::uuid returning to_char(uploads.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at;
