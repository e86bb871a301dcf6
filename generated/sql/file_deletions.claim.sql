/* file_deletions.claim */
    with due as materialized (
      select "file_deletions"."storage_key" from file_deletions
      where ("file_deletions"."due_at" <= now() or "file_deletions"."due_at" > now() + $1::int * interval '1 millisecond' + interval '1 minute') and not exists (
select from leases where starts_with("leases"."name", 'file_hold/') and "leases"."expires_at" > now()
  and "leases"."expires_at" <= now() + interval '60 minutes' + interval '1 minute')
      order by "file_deletions"."due_at" limit $2::int for update skip locked
    ), claimed as (update "file_deletions" set "due_at" = now() + $1::int * interval '1 millisecond' from due where "file_deletions"."storage_key" = due.storage_key returning "file_deletions"."storage_key", "file_deletions"."is_unfinished")
    select storage_key, is_unfinished from claimed;
