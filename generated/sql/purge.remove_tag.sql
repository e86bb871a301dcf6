/* purge.remove_tag */
delete from tags where id = $1::uuid and "tags"."deleted_at" is not null
  and not exists (select from task_tags where tag_id = $1::uuid);
