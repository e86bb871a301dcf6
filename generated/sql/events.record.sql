/* events.record */ select record_event($1::text, null, $2::uuid, null, null, null, $3::jsonb, $4::jsonb)::text as recorded;
