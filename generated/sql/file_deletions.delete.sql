/* file_deletions.delete */ delete from file_deletions where file_deletions.storage_key = any($1::text[]);
