/* task_followers.follow_all */
insert into task_followers (task_id, user_id)
select * from unnest($1::uuid[], $2::uuid[]) as follower (task_id, user_id) order by task_id, user_id
on conflict do nothing;
