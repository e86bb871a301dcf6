import { constant } from './conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** Octets of JSON per page. A page ends with the item that exceeds this limit. */
const maxPageOctets = 1_048_576

/**
 * The common table expression `rendered`: the JSON of the rows of `numbered`, by `ordinal`. An item may take megabytes, so
 * rows are rendered one at a time until the page is full; OFFSET keeps the planner from rendering all rows at each step. The
 * statement must use `with recursive`.
 */
export const renderedRows = (json: SQL, limit: SQL): SQL => {
  const item = sql`cross join lateral (select ${json} as json offset 0) item`
  const octets = sql`coalesce(octet_length(item.json), 0)`
  return sql`rendered (ordinal, json, octets) as (
    select ordinal, item.json, ${octets} from numbered ${item} where ordinal = 1
    union all
    select numbered.ordinal, item.json, numbered.octets + ${octets}
    from (
      select numbered.*, octets from rendered join numbered on numbered.ordinal = rendered.ordinal + 1
      where octets < ${constant(maxPageOctets)} and numbered.ordinal <= ${limit} offset 0
    ) numbered ${item}
  )`
}
