/* attachments.select_by_storage_key */
select attachments.id::text from attachments where attachments.storage_key = any($1::text[])
order by attachments.storage_key;
