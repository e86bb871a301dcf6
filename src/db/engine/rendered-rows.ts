import { constant } from './conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** Octets of the items of a page, as JSON: a page ends with the item that passes it. */
const maxPageOctets = 1_048_576

/**
 * The table expression `rendered` with the JSON of the rows `numbered`, by their column `position`. One row after the other
 * is rendered, since an item may take megabytes, until the page is full: OFFSET keeps the planner from rendering all rows at
 * each step. The statement is `with recursive`.
 */
export const renderedRows = (json: SQL, limit: SQL): SQL => {
  const item = sql`cross join lateral (select ${json} as json offset 0) item`
  const octets = sql`coalesce(octet_length(item.json), 0)`
  return sql`rendered (position, json, octets) as (
    select position, item.json, ${octets} from numbered ${item} where position = 1
    union all
    select numbered.position, item.json, numbered.octets + ${octets}
    from (
      select numbered.*, octets from rendered join numbered on numbered.position = rendered.position + 1
      where octets < ${constant(maxPageOctets)} and numbered.position <= ${limit} offset 0
    ) numbered ${item}
  )`
}
