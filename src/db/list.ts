import { type SQL, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { Position } from '../domain/cursors.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './client.ts'
import { instantText } from './json.ts'
import type { CallerPlaceholders } from './permissions.ts'
import {
  type Compiled,
  compile,
  onlyRow,
  type Parameters,
  type Placeholders,
  runCompiled,
  type Values,
} from './statement.ts'

/** Which part of a list is asked for; every list takes the same. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
  /** Where the page before ended. */
  readonly after: Position | null
  readonly includeTotal: boolean
}

/** A page: `items` is the text of a JSON array, `next` is where it ended if there is more. */
export interface Page {
  readonly items: string
  readonly next: Position | null
  readonly total: number | null
}

/** What a list is made of. Its rows are named `item` and have `id` and `created_at`. */
export interface ListSource<P extends Parameters> {
  /** Names the list, and tells apart the filters that are there: the key of the prepared statement. */
  readonly shape: string
  readonly parameters: P
  readonly values: Values<P>
  /** What comes behind FROM. */
  readonly from: SQL
  /** Conditions on `item`; all must hold. */
  readonly where: (placeholders: Placeholders<P>, caller: CallerPlaceholders) => readonly SQL[]
  /** The JSON text of a row. */
  readonly json: (row: SQL, caller: CallerPlaceholders, placeholders: Placeholders<P>) => SQL
}

const pageParameters = {
  caller: 'uuid',
  limit: 'int',
  offset: 'int',
  after_created_at: 'instant',
  after_id: 'uuid',
} as const
const pageColumns = { items: 'text', more: 'bool', created_at: 'text?', id: 'text?', total: 'int?' } as const

/** Bounded by nature (a shape names only which filters are there), and by size all the same. */
const statements = new LRUCache<string, Compiled>({ max: 500 })

/** Where no page before is named, nothing is compared with these. */
const nowhere: Position = {
  createdAt: '1970-01-01T00:00:00.000Z',
  id: '00000000-0000-0000-0000-000000000000',
}

/**
 * One page of a list as the principal sees it, newest first, in one statement: the items, whether there is more, and
 * the total if asked for.
 */
export const selectPage = async <P extends Parameters>(
  db: Database,
  source: ListSource<P>,
  principal: Principal,
  page: PageRequest,
): Promise<Page> => {
  const { after, includeTotal, limit, offset } = page
  const shape = JSON.stringify([source.shape, principal.role, after !== null, includeTotal])
  const compiled = statements.get(shape) ?? compilePage(source, principal, page)
  statements.set(shape, compiled)

  const { createdAt, id } = after ?? nowhere
  const values = {
    ...source.values,
    caller: principal.userId,
    limit,
    offset,
    after_created_at: createdAt,
    after_id: id,
  }
  const row = onlyRow(await runCompiled(db, compiled, pageColumns, values))
  if (row === null) throw new Error('A list statement answers with one row')
  const next =
    row.more && row.created_at !== null && row.id !== null ? { createdAt: row.created_at, id: row.id } : null
  return { items: row.items, next, total: row.total }
}

const compilePage = <P extends Parameters>(
  { parameters, from, where, json }: ListSource<P>,
  { role }: Principal,
  { after, includeTotal }: PageRequest,
): Compiled =>
  compile({ ...parameters, ...pageParameters }, (p) => {
    // The role is part of the shape and so a constant here: the planner sees which indexes can serve the condition.
    const caller = {
      caller: p.caller,
      is_admin: role === 'admin' ? sql`true` : sql`false`,
      in_session: sql`false`,
    }
    const matching = sql`from ${from} where ${sql.join([sql`true`, ...where(p, caller)], sql` and `)}`
    const behind =
      after === null ? sql`` : sql`and (item.created_at, item.id) < (${p.after_created_at}, ${p.after_id})`
    // NULLS LAST although there are none: without it the planner does not see that the indexes have this order.
    return sql`
      with picked as (
        select item.* ${matching} ${behind}
        order by item.created_at desc nulls last, item.id desc nulls last limit ${p.limit} + 1 offset ${p.offset}
      ), numbered as (
        select picked.*, row_number() over (order by created_at desc nulls last, id desc nulls last) as position from picked
      )
      select
        '[' || coalesce(string_agg(${json(sql`numbered`, caller, p)}, ',' order by position)
          filter (where position <= ${p.limit}), '') || ']' as items,
        count(*) > ${p.limit} as more,
        max(${instantText(sql`created_at`)}) filter (where position = ${p.limit}) as created_at,
        max(id::text) filter (where position = ${p.limit}) as id,
        ${includeTotal ? sql`(select count(*)::int ${matching})` : sql`null::int`} as total
      from numbered`
  })
