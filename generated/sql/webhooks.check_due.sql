/* webhooks.check_due */
  select exists (
    select from webhooks webhook where "webhook"."due_at" <= now() and "webhook"."is_enabled" and "webhook"."deleted_at" is null and coalesce("webhook"."leased_until" <= case "webhook"."queue" when 'prompt' then now() else now() - interval '1 second' end, true)
and not exists (select from users where "users"."id" = "webhook"."owner_id" and coalesce("users"."sign_in_due_at" <= now(), false)) and ($1::jsonb ->> "webhook"."queue")::int > 0) as is_due;
