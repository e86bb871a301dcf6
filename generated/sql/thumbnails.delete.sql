/* thumbnails.delete */ delete from thumbnails where thumbnails.storage_key = $1::text;
