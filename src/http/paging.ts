import type { JsonText } from '../contract/json-text.ts'
import { jsonText } from '../contract/json-text.ts'
import {
  type Cursor,
  type CursorScope,
  decodeCursor,
  encodeCursor,
  type Position,
} from '../domain/cursors.ts'
import { defaultLimit, type Page, type PageRequest } from '../db/lists/list.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'

/** The query parameters that every list takes. */
export interface PageQuery {
  readonly limit?: number
  readonly offset?: number
  readonly cursor?: string
  readonly include_total?: boolean
}

/** A list request: what is asked of the database, and how its page is answered. */
export interface PagedList<Filter> {
  readonly filter: Filter
  /** What `now` is in a `filter`: when the first page was asked for. */
  readonly asOf: Date
  readonly request: PageRequest
  readonly answer: <List>(page: Page) => ListAnswer<List>
}

export interface ListAnswer<List> {
  readonly status: 200
  readonly headers: { readonly link: string }
  readonly body: JsonText<List>
}

/** Reads the query of the list at `path`; `page` holds what is left of it as the filter. */
export type Paging = <Query extends PageQuery & { readonly filter?: string }>(
  path: string,
  principal: Principal,
  query: Query,
) => PagedList<Omit<Query, keyof PageQuery>>

/**
 * Makes the reader of list queries. Cursors are sealed with `cursorKeys`, for the principal, the path and the filter
 * they were made for; links (RFC 8288) stand under `publicUrl`.
 */
export const createPaging =
  (cursorKeys: KeyRing, publicUrl: string): Paging =>
  (path, principal, query) => {
    const { limit = defaultLimit, offset, cursor, include_total: includeTotal = false, ...filter } = query
    const inOrder = Object.entries(filter).toSorted(([a], [b]) => (a < b ? -1 : 1))
    const scope: CursorScope = { principalId: principal.userId, list: path, filter: inOrder }
    if (cursor !== undefined && offset !== undefined) throw problems.cursorWithOffset()
    const from = cursor === undefined ? null : readCursor(cursorKeys, scope, cursor)
    const asOf = from?.asOf ?? new Date().toISOString()
    const cursorOf = (position: Position | null): string | null =>
      position &&
      encodeCursor(cursorKeys, scope, { position, asOf: filter.filter === undefined ? null : asOf })

    const linkTo = (relation: string, more: Readonly<Record<string, string>>): string => {
      const parameters = new URLSearchParams(
        listEntries({ ...filter, limit, ...(includeTotal && { include_total: true }), ...more }),
      )
      return `<${publicUrl}${path}?${parameters.toString()}>; rel="${relation}"`
    }

    return {
      filter,
      asOf: new Date(asOf),
      request: {
        limit,
        offset: offset ?? 0,
        position: from?.position ?? null,
        includeTotal,
      },
      answer: ({ items, next, previous, total }) => {
        const nextCursor = cursorOf(next)
        const previousCursor = cursorOf(previous)
        const links = [
          linkTo('first', {}),
          ...(previousCursor === null ? [] : [linkTo('prev', { cursor: previousCursor })]),
          ...(nextCursor === null ? [] : [linkTo('next', { cursor: nextCursor })]),
        ]
        const body = `{"items":${items},"next_cursor":${JSON.stringify(nextCursor)},"prev_cursor":${JSON.stringify(previousCursor)},"total":${JSON.stringify(total)}}`
        return { status: 200, headers: { link: joinFitting(links) }, body: jsonText(body) }
      },
    }
  }

const readCursor = (keys: KeyRing, scope: CursorScope, text: string): Cursor => {
  const cursor = decodeCursor(keys, scope, text)
  if (cursor === null) throw problems.invalidCursor()
  return cursor
}

/** Bytes of a Link header. Many clients and proxies refuse an answer whose head is longer than 16 KiB. */
const maxLinkLength = 8_192

/** As many of the links as fit, from the last one on. */
const joinFitting = (links: readonly string[]): string => {
  const joined = links.join(', ')
  return joined.length <= maxLinkLength ? joined : joinFitting(links.slice(1))
}

/** A query's entries, a repeated one for each value of a list. */
const listEntries = (query: Readonly<Record<string, unknown>>): [string, string][] =>
  Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one): [string, string] => [name, String(one)]),
  )
