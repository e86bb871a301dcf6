/* events.set_actor */ select set_config('taskwright.actor', $1::uuid::text, true) as actor;
