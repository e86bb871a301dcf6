/* reminders.keep_time_zones */ select "users"."id"::text from users where "users"."id" = any((select $1::uuid[])::uuid[]) order by "users"."id" for share;
