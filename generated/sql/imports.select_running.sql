/* imports.select_running */ select "row"."id"::text from imports row where "row"."lease_id" is not null and "row"."leased_until" > now();
