/* imports.insert_relation */
insert into task_relations (id, task_id, kind, other_task_id, created_at)
values ($1::uuid, $2::uuid, $3::text, $4::uuid, coalesce(least($5::timestamptz, now()), now())) on conflict do nothing
returning id::text;
