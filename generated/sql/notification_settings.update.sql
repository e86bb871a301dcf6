/* notification_settings.update */
    with checked as (
      select case
when not (true) then 'forbidden'
when not (true) then 'reauthentication_required'
when $1::text[] is not null and not (coalesce(settings.version, 1)::text is not null and array[coalesce(settings.version, 1)::text, '*'] && $1::text[]) then 'precondition_failed'
    when $2::text[] is not null and (coalesce(settings.version, 1)::text is not null and array[coalesce(settings.version, 1)::text, '*'] && $2::text[]) then 'precondition_failed'
else done_by($3::uuid) end as outcome,
        coalesce($4::jsonb ->> 'mail_digest', coalesce(settings.mail_digest, 'off')) as mail_digest
      from (values (true)) caller left join notification_settings settings on settings.user_id = $3::uuid
    ), settings as (
      insert into notification_settings as settings (user_id, mail_digest, digest_due_at, version) select $3::uuid, checked.mail_digest, next_digest_at(checked.mail_digest, (select person.time_zone from users person where person.id = $3::uuid)), case when checked.mail_digest = 'off' then 1 else 2 end from checked where outcome = 'done'
      on conflict (user_id) do update set mail_digest = coalesce($4::jsonb ->> 'mail_digest', settings.mail_digest), digest_due_at = case when coalesce($4::jsonb ->> 'mail_digest', settings.mail_digest) = settings.mail_digest then settings.digest_due_at else next_digest_at(coalesce($4::jsonb ->> 'mail_digest', settings.mail_digest), (select person.time_zone from users person where person.id = $3::uuid)) end, digested_until = case when settings.mail_digest = 'off' then now() else settings.digested_until end
        where ($1::text[] is null or (settings.version::text is not null and array[settings.version::text, '*'] && $1::text[]))
and ($2::text[] is null or not (settings.version::text is not null and array[settings.version::text, '*'] && $2::text[]))
      returning *
    )
    select case when outcome = 'done' and not settings.user_id is not null then 'precondition_failed' else outcome end as outcome,
      (select row_to_json(fields)::text from (select coalesce(settings.mail_digest, 'off') as mail_digest, coalesce(settings.version, 1) as version) fields) as json, coalesce(settings.version, 1) as version
    from checked left join settings on true;
