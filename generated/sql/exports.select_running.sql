/* exports.select_running */ select "row"."id"::text from exports row where "row"."status" = 'running' and "row"."leased_until" > now();
