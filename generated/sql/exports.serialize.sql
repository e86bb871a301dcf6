/* exports.serialize */ select pg_advisory_xact_lock(hashtextextended('exports', 0))::text as locked;
