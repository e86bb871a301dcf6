/* attachments.select_storage_keys */
select "attachments"."storage_key" from attachments where "attachments"."storage_key" > $1::text
order by "attachments"."storage_key" limit $2::int;
