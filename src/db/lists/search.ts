import { escapeLike } from '../../domain/text.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Bind, Condition } from './list.ts'
import type { TextSearch } from './searched.ts'
import { parameter } from '../engine/parameters.ts'

/** The condition that a folded name contains a folded text. */
export const nameContains = (name: SQL, part: string): Condition => {
  const values: Record<string, unknown> = {}
  const bind: Bind = (type, value) => {
    const parameterName = `part_${Object.keys(values).length}`
    values[parameterName] = value
    return parameter(parameterName, type)
  }
  const condition = contains(name, part, bind)
  const index = pairsIndex(name, part, bind)
  return {
    shape: `contains ${hasPairs(part)}`,
    sql: condition,
    values,
    search: { cost: sql`1000::float8`, ...(index !== undefined && { index }) },
  }
}

/** Whether a folded text contains another. */
export const contains = (text: SQL, part: string, bind: Bind): SQL =>
  sql`${text} like ${bind('text', patternOf(part))} escape '\\'`

/** What an index on `pairs_of` a text finds for its parts; nothing for a single character. */
export const pairsIndex = (text: SQL, part: string, bind: Bind): SQL | undefined =>
  hasPairs(part) ? sql`pairs_of(${text}) @> pairs_of(${bind('text', part)})` : undefined

/** What the index on the words of tasks finds; nothing if no words are looked for. */
export const wordsIndex = (words: string, bind: Bind): SQL | undefined =>
  words === '' ? undefined : sql`item.search @@ ${bind('text', words)}::tsquery`

/** Alternatives that are looked up in indexes. Planning takes seconds for a hundred. */
const maxAlternatives = 8

/** What one of the indexes finds; nothing if one of them is missing. */
export const eitherIndex = (indexes: readonly (SQL | undefined)[]): SQL | undefined => {
  const known = indexes.filter((index) => index !== undefined)
  if (known.length < indexes.length || known.length > maxAlternatives) return undefined
  return sql`(${sql.join(known, sql` or `)})`
}

/** At worst LIKE compares the pattern at each octet; reading a compressed text costs some more. */
export const comparisonCost = (text: SQL, patternLength: number, bind: Bind): SQL =>
  sql`octet_length(${text}) * ${bind('float8', patternLength + 8)}`

/** A text search reads the words of a task, which take about five times the octets of the folded description. */
export const wordsCost = (words: string, bind: Bind): SQL =>
  sql`octet_length(item.description_folded) * 20::float8 + ${bind('float8', 100 * words.split("'").length)}`

export const searchOf = (cost: SQL, index: SQL | undefined): TextSearch =>
  index === undefined ? { cost } : { cost, index }

const hasPairs = (part: string): boolean => Array.from(part).length > 1

/** For LIKE with a backslash as its escape. */
const patternOf = (part: string): string => `%${escapeLike(part)}%`
