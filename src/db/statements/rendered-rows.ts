import { constant } from './conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** Octets of JSON per page by default. A page ends with the item that exceeds this limit. */
const maxPageOctets = 1_048_576

/**
 * The common table expression `rendered`: the JSON of the rows of `numbered`, by `ordinal`, after a row 0 without JSON. An item
 * can have megabytes, so rows are rendered one at a time until the page is full; OFFSET keeps the planner from rendering all
 * rows at each step. The statement must use `with recursive`. The JSON expression occurs only once, since planning it is slow.
 */
export const renderedRows = (json: SQL, limit: SQL, maxOctets = maxPageOctets): SQL => sql`
  rendered (ordinal, json, octets) as (
    select 0::bigint, null::text, 0
    union all
    select numbered.ordinal, item.json, numbered.octets + coalesce(octet_length(item.json), 0)
    from (
      select numbered.*, octets from rendered join numbered on numbered.ordinal = rendered.ordinal + 1
      where octets < ${constant(maxOctets)} and numbered.ordinal <= ${limit} offset 0
    ) numbered cross join lateral (select ${json} as json offset 0) item
  )`
