/* memberships.compute */
select record_event(
  case when role_before is null then 'member.added' when role_after is null then 'member.removed' else 'member.changed' end,
  null, project_id, null, null, user_id,
  jsonb_strip_nulls(jsonb_build_object('role', role_before)), jsonb_strip_nulls(jsonb_build_object('role', role_after))
)::text as recorded
from compute_memberships($1::uuid[], $2::uuid[]);
