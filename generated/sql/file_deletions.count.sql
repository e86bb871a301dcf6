/* file_deletions.count */
select count(*) as count,
  coalesce(extract(epoch from now() - min("file_deletions"."created_at")), 0)::bigint as seconds
from file_deletions;
