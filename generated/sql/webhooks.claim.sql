/* webhooks.claim */
  with due as (
    select "ordered"."id" from (
      select *, row_number() over (
        partition by "ranked"."queue" order by user_rank, "ranked"."leased_until" nulls first, "ranked"."due_at") as place
      from (
        select "webhook"."id", "webhook"."queue", "webhook"."leased_until", "webhook"."due_at",
          row_number() over (partition by "webhook"."queue", "webhook"."owner_id" order by "webhook"."leased_until" nulls first, "webhook"."due_at") + (
            select count(*) from webhooks busy
            where "busy"."owner_id" = "webhook"."owner_id" and "busy"."queue" = "webhook"."queue"
              and "busy"."leased_until" > now()) as user_rank
        from webhooks webhook where "webhook"."due_at" <= now() and "webhook"."is_enabled" and "webhook"."deleted_at" is null and coalesce("webhook"."leased_until" <= case "webhook"."queue" when 'prompt' then now() else now() - interval '1 second' end, true)
and not exists (select from users where "users"."id" = "webhook"."owner_id" and coalesce("users"."sign_in_due_at" <= now(), false)) and ($1::jsonb ->> "webhook"."queue")::int > 0
      ) ranked where user_rank <= 4
    ) ordered where place <= ($1::jsonb ->> "ordered"."queue")::int
  ), locked as (
    select "webhook"."id" from webhooks webhook where "webhook"."id" in (select id from due) and "webhook"."due_at" <= now() and "webhook"."is_enabled" and "webhook"."deleted_at" is null and coalesce("webhook"."leased_until" <= case "webhook"."queue" when 'prompt' then now() else now() - interval '1 second' end, true)
and not exists (select from users where "users"."id" = "webhook"."owner_id" and coalesce("users"."sign_in_due_at" <= now(), false))
    for no key update skip locked
  )
  update webhooks webhook set lease_id = $2::uuid, leased_until = now() + $3::int * interval '1 millisecond'
  from locked where "webhook"."id" = locked.id returning "webhook"."id"::text, "webhook"."queue";
