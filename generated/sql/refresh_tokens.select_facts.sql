/* refresh_tokens.select_facts */
  select "session"."id"::text as session_id, "session"."user_id"::text,
    "shown"."expires_at" > now() and "session"."expires_at" > now() as is_live,
    "shown"."expires_at" <=
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) as is_expired_for_certain,
    "shown"."spent_at" is not null as is_spent,
    (select encode("next"."hash", 'hex') from refresh_tokens next
      where "next"."session_id" = "session"."id"
        and "next"."hash" in (select decode(hash, 'hex') from unnest($1::text[]) hash)
        and "next"."spent_at" is null and "next"."expires_at" > now() and "session"."expires_at" > now()
        and "shown"."spent_at" between now() - interval '30 seconds' and now() + interval '30 seconds') as next_hash
  from refresh_tokens shown join sessions session on "session"."id" = "shown"."session_id"
  where "shown"."hash" = $2::bytea;
