/* events.record_tags */
select record_event($1::text, "task"."id", "task"."project_id", "task"."owner_id", "task"."assignee_id", link.tag_id,
  case when $1::text = 'task.tagged' then '{}' else case when "tag"."id" is null then '{}'
else jsonb_build_object('tag', jsonb_build_object('id', "tag"."id", 'name', "tag"."name")) end end, case when $1::text = 'task.tagged' then case when "tag"."id" is null then '{}'
else jsonb_build_object('tag', jsonb_build_object('id', "tag"."id", 'name', "tag"."name")) end else '{}' end)::text as recorded
from unnest($2::uuid[], $3::uuid[]) with ordinality link (task_id, tag_id, place)
  join tasks task on "task"."id" = link.task_id left join tags tag on "tag"."id" = link.tag_id
order by place;
