/* imports.color_tags */
update tags set color = row.color from jsonb_to_recordset($1::jsonb -> 'rows') as row (id uuid, color text)
where tags.id = row.id and row.color is not null;
