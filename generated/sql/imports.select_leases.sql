/* imports.select_leases */ select "row"."lease_id"::text from imports row where "row"."lease_id" is not null;
