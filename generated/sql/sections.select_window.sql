/* sections.select_window */
select (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and ((item.position, item.id) < (anchor.position, anchor.id)
  or item.id = anchor.id and $3::text = 'after') order by item.position desc nulls last, item.id desc nulls last limit $4::int + 1) item) as previous, (select coalesce(json_agg(item), '[]')::text from (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and ((item.position, item.id) > (anchor.position, anchor.id)
  or item.id = anchor.id and $3::text = 'before') order by item.position asc nulls first, item.id asc nulls first limit $4::int + 1) item) as next
from (select item.id, item.position from "sections" item where "item"."project_id" = $1::uuid and item.id <> $2::uuid and item.id = $5::uuid) anchor;
