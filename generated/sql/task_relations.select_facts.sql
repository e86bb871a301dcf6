/* task_relations.select_facts */
select exists (select from task_relations relation where "relation"."task_id" = $1::uuid and "relation"."kind" = $2::text and "relation"."other_task_id" = $3::uuid) as is_related, greatest((
select count(*) from task_relations relation where $1::uuid in ("relation"."task_id", "relation"."other_task_id")), (
select count(*) from task_relations relation where $3::uuid in ("relation"."task_id", "relation"."other_task_id"))) as count,
  exists (select from task_relations relation where "relation"."other_task_id" = $1::uuid and "relation"."kind" = 'blocks') as is_blocker_blocked,
  exists (select from task_relations relation where "relation"."task_id" = $3::uuid and "relation"."kind" = 'blocks') as is_blocked_blocking;
