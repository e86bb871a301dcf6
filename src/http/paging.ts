import type { components } from '../../generated/openapi.ts'
import { jsonObject, type JsonText, jsonText, stringify } from '../contract/json-text.ts'
import {
  type Cursor,
  type CursorScope,
  decodeCursor,
  encodeCursor,
  type Position,
} from '../domain/shared/cursors.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { defaultLimit, type Page, type PageRequest } from '../domain/shared/pages.ts'
import type { Principal } from '../domain/shared/permissions.ts'
import { problems } from '../problems/problems.ts'

/** The query parameters that every list takes. */
export interface PageQuery {
  readonly limit?: number
  readonly offset?: number
  readonly cursor?: string
  readonly include_total?: boolean
}

/** A parsed list request: the filter and page to query, and the formatter of the response. */
export interface PagedList<Filter> {
  readonly filter: Filter
  /** The value of `now` in a `filter`: the time of the request for the first page. */
  readonly asOf: Date
  readonly request: PageRequest
  readonly respond: <Item>(page: Page) => ListResponse<Item>
}

export interface ListResponse<Item> {
  readonly status: 200
  readonly headers: { readonly link: string }
  readonly body: JsonText<components['schemas']['Page'] & { items: Item[] }>
}

/** Parses the query of the list at `path`. Parameters other than those of `PageQuery` form the filter. */
export type Paging = <Query extends PageQuery & { readonly filter?: string }>(
  path: string,
  principal: Principal,
  query: Query,
) => PagedList<Omit<Query, keyof PageQuery>>

interface Deps {
  readonly cursorKeys: KeyRing
  readonly publicUrl: string
  readonly clock: () => Date
}

/**
 * Creates the parser of list queries. `cursorKeys` seal cursors, which are bound to their principal, path and filter. Links
 * (RFC 8288) start with `publicUrl`.
 */
export const createPaging =
  ({ cursorKeys, publicUrl, clock }: Deps): Paging =>
  (path, principal, query) => {
    const { limit = defaultLimit, offset, cursor, include_total: includeTotal = false, ...filter } = query
    const scope: CursorScope = {
      principalId: principal.userId,
      list: path,
      parameters: boundParameters(filter),
    }
    if (cursor !== undefined && offset !== undefined) throw problems.cursorWithOffset()
    const from = cursor === undefined ? null : readCursor(cursorKeys, scope, cursor)
    const asOf = from?.asOf ?? clock().toISOString()
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
      respond: <Item>({ items, next, previous, total }: Page): ListResponse<Item> => {
        const nextCursor = cursorOf(next)
        const previousCursor = cursorOf(previous)
        const links = [
          linkTo('first', {}),
          ...(previousCursor === null ? [] : [linkTo('prev', { cursor: previousCursor })]),
          ...(nextCursor === null ? [] : [linkTo('next', { cursor: nextCursor })]),
        ]
        return {
          status: 200,
          headers: { link: joinLinks(links) },
          body: jsonObject({
            items: jsonText<Item[]>(items),
            next_cursor: stringify(nextCursor),
            prev_cursor: stringify(previousCursor),
            total: stringify(total),
          }),
        }
      },
    }
  }

const readCursor = (keys: KeyRing, scope: CursorScope, text: string): Cursor => {
  const opened = decodeCursor(keys, scope, text)
  if ('fault' in opened) throw problems.invalidCursor(opened.fault)
  return opened.value
}

/** The defaults of filter parameters. */
const defaults: Readonly<Record<string, unknown>> = {
  all: false,
  include_archived: false,
  tag_match: 'any',
  unread: false,
}

/**
 * The parameters that a cursor is bound to: those that affect the items of a list or their order. Equivalent values are made
 * equal: defaults are omitted, and the values of repeated parameters are sorted.
 */
const boundParameters = (query: Readonly<Record<string, unknown>>): CursorScope['parameters'] =>
  Object.fromEntries(
    Object.entries(query)
      .filter(([name, value]) => name !== 'expand' && value !== defaults[name])
      .map(([name, value]) => [
        name,
        Array.isArray(value) ? [...new Set(value.map(String))].toSorted() : value,
      ]),
  )

/** Maximum length of a Link header in bytes. Many clients and proxies refuse response headers of more than 16 KiB. */
const maxLinkLength = 8_192

/** Joins the links, without the first ones if all of them would exceed `maxLinkLength`. */
const joinLinks = (links: readonly string[]): string => {
  const joined = links.join(', ')
  return joined.length <= maxLinkLength ? joined : joinLinks(links.slice(1))
}

/** The parameters of a query. A list becomes a repeated parameter. */
const listEntries = (query: Readonly<Record<string, unknown>>): [string, string][] =>
  Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one): [string, string] => [name, String(one)]),
  )
