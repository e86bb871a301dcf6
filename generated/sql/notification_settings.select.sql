/* notification_settings.select */
select (select row_to_json(fields)::text from (select coalesce("settings"."mail_digest", 'off') as mail_digest, coalesce("settings"."mail_reminders", false) as mail_reminders, coalesce("settings"."version", 1) as version, coalesce("settings"."version", 1) as revision) fields) as json, coalesce("settings"."version", 1) as version
from (values (true)) caller left join notification_settings settings on "settings"."user_id" = $1::uuid;
