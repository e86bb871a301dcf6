/* task_tags.insert_links */
insert into task_tags (task_id, tag_id)
select task_id, tag_id from unnest($1::uuid[], $2::uuid[]) as added (task_id, tag_id) order by task_id, tag_id
on conflict do nothing;
