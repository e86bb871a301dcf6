-- Searching. The text is folded and cut into words here and not by a text search configuration, whose parser depends on
-- the locale of the database; domain/search.ts cuts a search alike. Collations are named for the same reason. An extension
-- (unaccent, pg_trgm) would have to be installed by somebody with the rights to do so.

-- Without case and accents: the marks that NFKD sets apart go, and what is left is composed again.
CREATE FUNCTION fold_text(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(
  lower(normalize(regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC) COLLATE "und-x-icu"),
  'ς', 'σ');
--> statement-breakpoint
-- The words of a text with their positions. A script that puts no spaces between words (Chinese, Japanese, Korean, Thai,
-- Lao) is kept as pairs of neighbours, and the last character of a run alone.
CREATE FUNCTION words_of(value text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  WITH words AS (
    SELECT word, n
    FROM regexp_split_to_table(fold_text(value) COLLATE "und-x-icu", '[^[:alnum:]]+') WITH ORDINALITY words (word, n)
    WHERE word <> ''
  ), lexemes AS (
    SELECT left(word, 64) AS lexeme, n, 0::bigint AS run, 0::bigint AS place
    FROM words WHERE word !~ '[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
    UNION ALL
    SELECT pair, n, run, place
    FROM words,
      LATERAL regexp_matches(word,
        '[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+|[^\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+',
        'g') WITH ORDINALITY runs (text, run),
      LATERAL (
        SELECT character || coalesce(lead(character) OVER (ORDER BY place), '') AS pair, place
        FROM unnest(string_to_array(text[1], NULL)) WITH ORDINALITY characters (character, place)
        WHERE text[1] ~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
        UNION ALL
        SELECT left(text[1], 64), 1
        WHERE text[1] !~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
      ) pairs
    WHERE word ~ '[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
  ), placed AS (
    SELECT lexeme, row_number() OVER (ORDER BY n, run, place) AS place FROM lexemes
  )
  SELECT coalesce(string_agg('''' || lexeme || ''':' || least(place, 16383), ' '), '')::tsvector FROM placed;
END;
--> statement-breakpoint
-- Pairs of neighbouring characters, by which any part of a title is found.
CREATE FUNCTION pairs_of(value text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(DISTINCT pair), '{}')
  FROM (
    SELECT character || lead(character) OVER (ORDER BY place) AS pair
    FROM unnest(string_to_array(value, NULL)) WITH ORDINALITY characters (character, place)
  ) pairs
  WHERE pair IS NOT NULL;
END;
--> statement-breakpoint
-- A trigger and not generated columns, which tasks_touch could not compare.
CREATE FUNCTION index_task_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.title_folded := fold_text(NEW.title);
  NEW.search := setweight(words_of(NEW.title), 'A') || setweight(words_of(NEW.description), 'D');
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER tasks_text_inserted BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION index_task_text();
--> statement-breakpoint
CREATE TRIGGER tasks_text_changed BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.title, OLD.description) IS DISTINCT FROM (NEW.title, NEW.description)) EXECUTE FUNCTION index_task_text();
--> statement-breakpoint
-- The tasks that are there; nothing that a client sees changes.
ALTER TABLE tasks DISABLE TRIGGER tasks_touch;
--> statement-breakpoint
UPDATE tasks SET title_folded = fold_text(title),
  search = setweight(words_of(title), 'A') || setweight(words_of(description), 'D');
--> statement-breakpoint
ALTER TABLE tasks ENABLE TRIGGER tasks_touch;
--> statement-breakpoint
CREATE INDEX tasks_title_pairs ON tasks USING gin (pairs_of(title_folded));
--> statement-breakpoint
CREATE INDEX users_name_pairs ON users USING gin (pairs_of(fold_text(username || ' ' || display_name)));
--> statement-breakpoint
CREATE INDEX tags_name_pairs ON tags USING gin (pairs_of(fold_text(name)));
