/* webhook_deliveries.record */
    with attempt as materialized (
      select * from jsonb_to_recordset($1::jsonb -> 'rows') attempt (
        id uuid, status text, retry_in int, recorded_after int, duration_ms int, response_status int, response_body text,
        error text, is_gone boolean)
    ), delivery as (update "webhook_deliveries" "delivery" set "status" = attempt.status, "attempts" = case when attempt.status = 'withheld' then "delivery"."attempts" else "delivery"."attempts" + 1 end, "due_at" = now() + attempt.retry_in * interval '1 millisecond', "attempted_at" = case when attempt.status = 'withheld' then "delivery"."attempted_at" else now() - attempt.recorded_after * interval '1 millisecond' end, "duration_ms" = case when attempt.status = 'withheld' then "delivery"."duration_ms" else attempt.duration_ms end, "response_status" = case when attempt.status = 'withheld' then "delivery"."response_status" else attempt.response_status end, "response_body" = case when attempt.status = 'withheld' then "delivery"."response_body" else attempt.response_body end, "error" = case when attempt.status = 'withheld' then "delivery"."error" else attempt.error end, "ended_at" = case when attempt.status <> 'pending' then now() - attempt.recorded_after * interval '1 millisecond' end from attempt where "delivery"."id" = attempt.id and "delivery"."webhook_id" = $2::uuid and "delivery"."status" = 'pending' returning attempt.status, attempt.is_gone), result as (
      select bool_or(status = 'delivered') as has_succeeded, bool_or(status in ('pending', 'failed')) as has_failed,
        bool_or(is_gone) as is_gone
      from delivery having count(*) > 0
    ), webhook as (update "webhooks" "webhook" set "is_enabled" = "webhook"."is_enabled" and case when result.is_gone then 'gone'
    when result.has_failed and greatest(case
when case when not result.has_succeeded then "webhook"."failing_since" end > (select coalesce("retention"."skipped_from" + interval '1 minute', "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention) then now()
else
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) end - case when not result.has_succeeded then "webhook"."failing_since" end, '0') > interval '3 days' then 'failing' end is null, "disabled_reason" = coalesce(case when result.is_gone then 'gone'
    when result.has_failed and greatest(case
when case when not result.has_succeeded then "webhook"."failing_since" end > (select coalesce("retention"."skipped_from" + interval '1 minute', "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention) then now()
else
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) end - case when not result.has_succeeded then "webhook"."failing_since" end, '0') > interval '3 days' then 'failing' end, "webhook"."disabled_reason"), "failing_since" = case when result.has_failed then coalesce(case when not result.has_succeeded then "webhook"."failing_since" end, now()) else case when not result.has_succeeded then "webhook"."failing_since" end end, "queue" = coalesce($3::text, "webhook"."queue") from result where "webhook"."id" = $2::uuid and "webhook"."lease_id" = $4::uuid
          and (result.has_failed or "webhook"."failing_since" is not null or "webhook"."queue" <> $3::text) returning "webhook"."id", "webhook"."owner_id", "webhook"."project_id", "webhook"."url", "webhook"."description", "webhook"."event_types", "webhook"."secret", "webhook"."previous_secret", "webhook"."previous_secret_until", "webhook"."is_enabled", "webhook"."disabled_reason", "webhook"."failing_since", "webhook"."last_sequence", "webhook"."due_at", "webhook"."queue", "webhook"."lease_id", "webhook"."leased_until", "webhook"."version", "webhook"."side_changes", "webhook"."created_at", "webhook"."updated_at", "webhook"."deleted_at")
    select case when not "webhook"."is_enabled" then "webhook"."disabled_reason" end as disabled_reason,
      "owner"."email", "webhook"."url"
    from webhook join users owner on "owner"."id" = "webhook"."owner_id";
