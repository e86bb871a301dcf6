import { foldedCharacters, toFullWidth } from '../../domain/shared/text.ts'

/**
 * Escapes marks, controls and separators in JSON: they cannot be read in a file, or change how the rest of their line is shown.
 */
export const escapeInvisible = (json: string): string =>
  json.replaceAll(/(?![\n ])[\p{M}\p{C}\p{Z}]/gu, (character) =>
    Array.from(
      { length: character.length },
      (_, unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`,
    ).join(''),
  )

/** Lines of at most `width` characters, unless an item is longer. */
const wrap = (items: readonly string[], width: number): string => {
  const lines: string[] = []
  for (const item of items) {
    const line = lines.at(-1)
    if (line !== undefined && line.length + item.length <= width) lines[lines.length - 1] = line + item
    else lines.push(item)
  }
  return lines.join('\n')
}

const inPattern = (code: number): string =>
  code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`

/** The letters and digits of this version of Node.js, as ranges of a bracket expression. */
const wordRanges = (): readonly string[] => {
  const codes = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) =>
    /[\p{L}\p{Nd}]/u.test(String.fromCodePoint(code)),
  )
  const lasts = codes.filter((code, index) => codes[index + 1] !== code + 1)
  return codes
    .filter((code, index) => codes[index - 1] !== code - 1)
    .map((first, index) => [...new Set([first, lasts[index] ?? first])].map(inPattern).join('-'))
}

/** Generates the function `between_words`, of migrations/folding.sql. PostgreSQL joins literals that lines separate. */
const wordsRoutine = (): string => `
-- For words_of(): what is between words, as a regular expression: everything but the letters and digits that domain/shared/search.ts knows. Not
-- [[:alnum:]], which depends on the database's version of Unicode. Once released, a change has to index texts again.
CREATE OR REPLACE FUNCTION between_words() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '[^'
'${wrap(wordRanges(), 118).replaceAll('\n', "'\n'")}'
']+';
`

/**
 * Generates the function `fold_text`, of migrations/folding.sql. The table is a literal in its statement, which a session parses once: as a
 * variable it would be copied at each call, and a function would be evaluated for each plan.
 */
const foldRoutine = (): string => {
  const entries = [...foldedCharacters].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const members = entries.map(
    ([character, folded], index) =>
      `${JSON.stringify(character)}:${JSON.stringify(folded)}${index === entries.length - 1 ? '' : ','}`,
  )
  const table = wrap(members.map(escapeInvisible), 120).replaceAll("'", "''")
  const halfwidth = Array.from({ length: 0xffa0 - 0xff66 }, (_, index) => String.fromCharCode(0xff66 + index))
  return `-- Folds text for searches and orders, as foldSearch() in domain/shared/text.ts does: replaces each character that has an entry in the
-- table. The value is in NFC; voicing marks of halfwidth kana are composed first. Takes linear time. Once released, a change of
-- the table has to fold the stored texts again and rebuild users_name_bigrams.
CREATE OR REPLACE FUNCTION fold_text(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  -- ASCII
  IF octet_length(value) = length(value) THEN
    RETURN lower(value COLLATE "C");
  END IF;
  IF value ~ '[ﾞﾟ]' THEN
    value := normalize(translate(value, '${halfwidth.join('')}',
      E'${escapeInvisible(halfwidth.map(toFullWidth).join(''))}'), NFC);
  END IF;
  RETURN (
    SELECT string_agg(
      CASE WHEN octet_length(character) = 1 THEN lower(character COLLATE "C")
        ELSE coalesce(folded ->> character, character) END, '')
    FROM string_to_table(value, NULL) character, LATERAL (SELECT '{
${table}
}'::jsonb AS folded) characters);
END $$;
`
}

/** Generates migrations/folding.sql. */
export const foldingRoutines = (): string =>
  `-- Generated from src/domain/shared/folded-characters.json and Node.js by \`npm run generate\`; applied before routines.sql.

${foldRoutine()}${wordsRoutine()}`
