/* import_records.select */
select known.type, known.source_id, known.resource_id::text, known.is_made, known.import_id::text, known.project_id::text
from (select distinct * from unnest($1::text[], $2::text[]) wanted (type, source_id)) wanted
  join import_records known on known.user_id = $3::uuid and known.source = $4::text and known.type = wanted.type
    and known.source_id = wanted.source_id;
