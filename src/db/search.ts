import { escapeLike } from '../domain/text.ts'
import { type SQL, sql } from './drizzle.ts'
import type { Condition } from './list.ts'
import { parameter } from './statement.ts'

/** The condition that a folded text has a folded part in it, as it stands; or, if it is given, that `found` holds. */
export const hasPart = (text: SQL, part: string, found?: SQL): Condition => ({
  shape: `${found === undefined ? '' : 'found or '}${hasPairs(part) ? 'part' : 'character'}`,
  sql: isPartOf(text, part, parameter('part', 'text'), parameter('part_pattern', 'text'), found),
  values: { part, part_pattern: patternOf(part) },
})

/**
 * The same with parameters of the caller's: `value` has the part, and `pattern` the pattern of it. To compare pairs takes
 * long: it comes last, for where no index is used, and is a condition by itself, which is not asked of rows again that
 * indexes have found.
 */
export const isPartOf = (text: SQL, part: string, value: SQL, pattern: SQL, found?: SQL): SQL => {
  const orFound = (condition: SQL): SQL => (found === undefined ? condition : sql`(${found} or ${condition})`)
  const has = orFound(sql`${text} like ${pattern} escape '\\'`)
  return hasPairs(part) ? sql`(${has} and ${orFound(sql`pairs_of(${text}) @> pairs_of(${value})`)})` : has
}

/**
 * Whether the index on `pairs_of` the text finds the part: by its pairs of neighbouring characters, of which a single
 * character has none.
 */
export const hasPairs = (part: string): boolean => Array.from(part).length > 1

/** For LIKE with a backslash as its escape. */
export const patternOf = (part: string): string => `%${escapeLike(part)}%`
