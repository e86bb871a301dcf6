/* notification_settings.correct_times */
with corrected as (update "notification_settings" "settings" set "digest_due_at" = case when "settings"."digest_due_at" > now() + case "settings"."mail_digest" when 'hourly' then interval '1 hour' else interval '25 hours' end then now() + case "settings"."mail_digest" when 'hourly' then interval '1 hour' else interval '25 hours' end else "settings"."digest_due_at" end, "digested_until" = least("settings"."digested_until", now()) where "settings"."digest_due_at" > now() + case "settings"."mail_digest" when 'hourly' then interval '1 hour' else interval '25 hours' end or "settings"."digested_until" > now())
update notifications notification set created_at = now() from notification_settings settings
where "settings"."digested_until" > now() and "notification"."user_id" = "settings"."user_id" and "notification"."created_at" > now()
  and "notification"."created_at" <= "settings"."digested_until";
