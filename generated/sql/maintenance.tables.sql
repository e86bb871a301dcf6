/* maintenance.tables */
select quote_ident(relname) as name, pg_relation_size(relid) > 0 as has_rows, n_mod_since_analyze as changes, n_live_tup as rows,
  list.columns, list.vectors
from pg_stat_user_tables cross join lateral (
  select string_agg(quote_ident(attname), ', ') filter (where atttypid <> 'tsvector'::regtype) as columns,
    string_agg(quote_ident(attname), ', ') filter (where atttypid = 'tsvector'::regtype) as vectors
  from pg_attribute where attrelid = relid and attnum > 0 and not attisdropped
) list where schemaname = 'public' order by relname;
