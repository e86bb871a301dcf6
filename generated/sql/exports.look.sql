/* exports.look */ select from exports row where ("row"."status" in ('waiting', 'running') and coalesce("row"."leased_until" <= now(), true)) limit 1;
