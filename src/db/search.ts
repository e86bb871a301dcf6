import { escapeLike } from '../domain/text.ts'
import { type SQL, sql } from './drizzle.ts'
import type { Condition } from './list.ts'
import { parameter } from './statement.ts'

/** The condition that a folded text has a folded part in it, as it stands. */
export const hasPart = (text: SQL, part: string): Condition => ({
  shape: hasPairs(part) ? 'part' : 'character',
  sql: isPartOf(text, part, parameter('part', 'text'), parameter('part_pattern', 'text')),
  values: { part, part_pattern: patternOf(part) },
})

/** The same with parameters of the caller's: `value` has the part, and `pattern` the pattern of it. */
export const isPartOf = (text: SQL, part: string, value: SQL, pattern: SQL): SQL => {
  const has = sql`${text} like ${pattern} escape '\\'`
  // In this order, for where the index is not used: to compare pairs takes much longer.
  return hasPairs(part) ? sql`(${has} and pairs_of(${text}) @> pairs_of(${value}))` : has
}

/**
 * Whether the index on `pairs_of` the text finds the part: by its pairs of neighbouring characters, of which a single
 * character has none.
 */
export const hasPairs = (part: string): boolean => Array.from(part).length > 1

/** For LIKE with a backslash as its escape. */
export const patternOf = (part: string): string => `%${escapeLike(part)}%`
