/* tags.transfer */ with changed as (update "tags" set "owner_id" = handed.heir_id from (
        select "tags"."id", heir_id from tags cross join lateral (
select "person"."id" as heir_id from project_grants granted join users person on "person"."id" = granted.user_id
where granted.project_id = "tags"."project_id" and "person"."deleted_at" is null
order by role_rank(granted.role) desc, "person"."id" limit 1 for key share of person skip locked) heir
        where "tags"."owner_id" = $1::uuid and "tags"."project_id" is not null and "tags"."deleted_at" is null
        limit 100 for no key update of tags skip locked
      ) handed where "tags"."id" = handed.id returning "tags"."id") select count(*) as changed from changed;
