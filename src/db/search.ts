import { type SQL, sql } from 'drizzle-orm'
import { escapeLike } from '../domain/text.ts'
import type { Condition } from './list.ts'
import { parameter } from './statement.ts'

/**
 * The condition that a folded text has a folded part in it, as it stands. `pairs_of` the text has an index, which finds a
 * part by its pairs of neighbouring characters; a single character has none.
 */
export const hasPart = (text: SQL, part: string): Condition => {
  const isIndexed = Array.from(part).length > 1
  const pairs = sql`pairs_of(${text}) @> pairs_of(${parameter('part', 'text')})`
  const has = sql`${text} like ${parameter('part_pattern', 'text')} escape '\\'`
  return {
    shape: isIndexed ? 'part' : 'character',
    sql: isIndexed ? sql`(${pairs} and ${has})` : has,
    values: { part, part_pattern: `%${escapeLike(part)}%` },
  }
}
