-- Searching. The text is folded and cut into words here and not by a text search configuration, whose parser depends on
-- the locale of the database; domain/search.ts cuts a search alike. Collations are named for the same reason. An extension
-- (unaccent, pg_trgm) would have to be installed by somebody with the rights to do so.

-- Without case and accents: the marks that NFKD sets apart go, and what is left is composed again.
CREATE FUNCTION fold_text(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(
  lower(normalize(regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC) COLLATE "und-x-icu"),
  'ς', 'σ');
--> statement-breakpoint
-- The words of a folded text with their positions, in the syntax of a tsvector.
CREATE FUNCTION spaced_words(folded text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT string_agg('''' || left(word, 64) || ''':' || least(place, 16383), ' ')
  FROM regexp_split_to_table(folded COLLATE "und-x-icu", '[^[:alnum:]]+') WITH ORDINALITY words (word, place)
  WHERE word <> '';
END;
--> statement-breakpoint
-- The same where a script puts no spaces between words (Chinese, Japanese, Korean, Thai, Lao): its runs are kept as pairs of
-- neighbours, and the last character of a run alone.
CREATE FUNCTION unspaced_words(folded text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  WITH runs AS (
    SELECT match[1] AS run, run_place, word_place
    FROM regexp_split_to_table(folded COLLATE "und-x-icu", '[^[:alnum:]]+') WITH ORDINALITY words (word, word_place),
      LATERAL regexp_matches(word, '[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+|[^\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+', 'g') WITH ORDINALITY matches (match, run_place)
  ), lexemes AS (
    SELECT left(run, 64) AS lexeme, word_place, run_place, 0::bigint AS place
    FROM runs WHERE run !~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
    UNION ALL
    SELECT character || coalesce(lead(character) OVER (PARTITION BY word_place, run_place ORDER BY place), ''),
      word_place, run_place, place
    FROM runs, LATERAL unnest(string_to_array(run, NULL)) WITH ORDINALITY characters (character, place)
    WHERE run ~ '^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]'
  ), placed AS (
    SELECT lexeme, row_number() OVER (ORDER BY word_place, run_place, place) AS place FROM lexemes
  )
  SELECT string_agg('''' || lexeme || ''':' || least(place, 16383), ' ') FROM placed;
END;
--> statement-breakpoint
CREATE FUNCTION words_of(folded text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN coalesce(CASE WHEN folded ~ '[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]' THEN unspaced_words(folded) ELSE spaced_words(folded) END, '')::tsvector;
--> statement-breakpoint
-- Pairs of neighbouring characters, by which any part of a text is found.
CREATE FUNCTION pairs_of(folded text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(match[1]), '{}')
  FROM (
    SELECT regexp_matches(folded, '..', 'g')
    UNION ALL
    SELECT regexp_matches(substr(folded, 2), '..', 'g')
  ) matches (match);
END;
--> statement-breakpoint
-- A trigger and not generated columns, which tasks_touch could not compare.
CREATE FUNCTION index_task_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.title_folded := fold_text(NEW.title);
  NEW.search := setweight(words_of(NEW.title_folded), 'A') || setweight(words_of(fold_text(NEW.description)), 'D');
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
  search = setweight(words_of(fold_text(title)), 'A') || setweight(words_of(fold_text(description)), 'D');
--> statement-breakpoint
ALTER TABLE tasks ENABLE TRIGGER tasks_touch;
--> statement-breakpoint
CREATE INDEX tasks_title_pairs ON tasks USING gin (pairs_of(title_folded));
--> statement-breakpoint
CREATE INDEX users_name_pairs ON users USING gin (pairs_of(fold_text(username || ' ' || display_name)));
--> statement-breakpoint
CREATE INDEX tags_name_pairs ON tags USING gin (pairs_of(fold_text(name)));
