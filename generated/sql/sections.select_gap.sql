/* sections.select_gap */
select moving.position as present, anchor.id::text as anchor_id, anchor.position as anchor_position,
  neighbour.id::text as neighbour_id, neighbour.position as neighbour_position
from (values (true)) always
left join lateral (select item.position from "sections" item where "item"."project_id" = $1::uuid and item.id = $2::uuid) moving on true
left join lateral (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and item.id = $3::uuid) anchor on true
left join lateral ((select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and $4::text = 'before' and (item.position, item.id) < (anchor.position, anchor.id) order by item.position desc nulls last, item.id desc nulls last limit 1) union all (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and $4::text = 'after' and (item.position, item.id) > (anchor.position, anchor.id) order by item.position asc nulls first, item.id asc nulls first limit 1) union all (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and $4::text = 'end' and true order by item.position desc nulls last, item.id desc nulls last limit 1)) neighbour on true;
