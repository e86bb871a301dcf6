/* imports.hold */
select "row"."id"::text from imports row where "row"."id" = $1::uuid and "row"."lease_id" = $2::uuid for no key update;
