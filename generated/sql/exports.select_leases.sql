/* exports.select_leases */ select "row"."lease_id"::text from exports row where "row"."status" = 'running' and "row"."lease_id" is not null;
