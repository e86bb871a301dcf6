/* thumbnails.insert */
insert into thumbnails (attachment_id, width, storage_key, size, sha256) values ($1::uuid, $2::int, $3::text, $4::int, $5::text)
on conflict (attachment_id, width) do update set width = excluded.width
returning thumbnails.storage_key, thumbnails.size, thumbnails.sha256;
