/* events.record_of_task */ select record_event_of_task($1::text, $2::uuid, $3::uuid, $4::jsonb, $5::jsonb)::text as recorded;
