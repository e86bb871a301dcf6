/* users.probe_time_zone */ select (now() at time zone $1::text)::text as local_time;
