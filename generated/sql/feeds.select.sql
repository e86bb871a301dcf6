/* feeds.select */
select (select row_to_json(fields)::text from (select "feed"."id" as id, "feed"."name" as name, "feed"."filter" as filter, "feed"."kind" as kind, "feed"."alarms" as alarms, "feed"."color" as color, "feed"."version" as version, to_char("feed"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("feed"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, "feed"."version" from feeds feed
where "feed"."id" = $1::uuid and "feed"."revoked_at" is null and ("feed"."owner_id" = $2::uuid);
