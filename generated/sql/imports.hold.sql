/* imports.hold */
select "person"."deleted_at" is null and not "person"."is_disabled" as is_owner_active
from imports row join users person on "person"."id" = "row"."user_id"
where "row"."id" = $1::uuid and "row"."lease_id" = $2::uuid for no key update of row;
