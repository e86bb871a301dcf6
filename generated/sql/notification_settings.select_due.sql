/* notification_settings.select_due */
  select "settings"."user_id"::text, "settings"."mail_digest", "person"."time_zone", to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as now
  from notification_settings settings join users person on "person"."id" = "settings"."user_id"
  where "settings"."digest_due_at" <= now() and "person"."deleted_at" is null and not "person"."is_disabled"
and not coalesce("person"."sign_in_due_at" <= now(), false) order by "settings"."digest_due_at" limit 1;
