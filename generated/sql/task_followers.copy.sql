/* task_followers.copy */
insert into task_followers (task_id, user_id, has_stopped)
select copy.to_id, user_id, has_stopped from unnest($1::uuid[], $2::uuid[]) as copy (from_id, to_id)
  join task_followers follower on "follower"."task_id" = copy.from_id
order by copy.to_id, user_id;
