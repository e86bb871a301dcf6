import { found, type Outcome } from '../domain/outcome.ts'
import type { BearerPrincipal, Principal, SessionPrincipal } from '../domain/permissions.ts'
import { parseScopes, type Scope } from '../domain/scopes.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsOwn } from './access/permissions.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { creation, withSealed } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { parameter, type Placeholders } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { apiTokenJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  isUseRecorded,
  principalColumns,
  readAndRecordUse,
  readPrincipal,
  selectPrincipal,
} from './sessions.ts'

/** The fields of a new API token. */
export interface NewApiToken {
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Null when it does not expire. */
  readonly expiresAt: string | null
  /** SHA-256 of the token. */
  readonly hash: Buffer
  /** Seals the token for the row with this id, so that its creation can be replayed. */
  readonly seal: (id: string) => string
}

const token = sql.raw('token')

const insert = creation(
  'api_tokens.insert',
  { name: 'text', hash: 'bytes', scopes: 'text[]', expires_at: 'instant?', sealed_token: 'text' },
  { json: 'text' },
  (p) => {
    const { columns, values } = insertion<'api_tokens'>({
      id: p.id,
      user_id: p.caller,
      name: p.name,
      hash: p.hash,
      scopes: p.scopes,
      expires_at: p.expires_at,
    })
    return {
      parts: sql`
        token as (
          insert into api_tokens (${columns}) select ${values}
          where ${p.expires_at} is null or ${p.expires_at} > now() returning *
        ), created as (
          select id, ${withSealed(apiTokenJson(token), 'token', p.sealed_token)} as json from token
        ), audit as (${audit(
          p,
          sql`${auditEvent(p, 'api_token.created', { user: sql`user_id`, token: sql`id` })} from token`,
        )})`,
      select: sql`select ${apiTokenJson(token)} as json, ${auditColumn} from token`,
    }
  },
)

/**
 * Creates an API token of the caller; null when the expiry is in the past. The stored JSON, and so that of a replay, also has the
 * member `sealed_token`.
 */
export const insertApiToken = async (
  ctx: OpContext<SessionPrincipal>,
  { name, scopes, expiresAt, hash, seal }: NewApiToken,
): Promise<Created | null> => {
  const result = await insert(ctx, (id) => ({
    name,
    scopes,
    hash,
    expires_at: expiresAt,
    sealed_token: seal(id),
  }))
  if (result.replayed) return result
  return result.row && { id: result.id, json: result.row.json, replayed: false }
}

/** A page of the caller's own API tokens. Expired tokens stay until they are revoked. */
export const selectApiTokens = ({ db, principal }: OpContext<Principal>, page: PageRequest): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'api_tokens',
      from: sql`api_tokens item`,
      branches: (caller) => onlyBranch(allowsOwn('api_token.see', caller, sql`item`)),
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => apiTokenJson(row),
    },
    principal,
    page,
  )

/** A page of the API tokens of one user, for an administrator. */
export const selectUserApiTokens = (
  { db, principal }: OpContext<Principal>,
  userId: string,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'user_api_tokens',
      from: sql`api_tokens item`,
      branches: (caller) =>
        onlyBranch(
          sql`item.user_id = ${parameter('user_id', 'uuid')} and ${allowsOwn('api_token.see_any', caller, sql`item`)}`,
        ),
      filters: [],
      values: { user_id: userId },
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => apiTokenJson(row),
    },
    principal,
    page,
  )

const removal = (
  name: 'api_tokens.delete' | 'api_tokens.delete_any',
  permission: 'api_token.revoke' | 'api_token.revoke_any',
) =>
  query(
    name,
    { id: 'uuid', user_id: 'uuid' },
    { id: 'text' },
    (p) => sql`
      with token as (
        delete from api_tokens token
        where id = ${p.id} and user_id = ${p.user_id} and ${allowsOwn(permission, p, token)} returning *
      ), audit as (${audit(
        p,
        sql`${auditEvent(p, 'api_token.revoked', { user: sql`user_id`, token: sql`id` })} from token`,
      )})
      select ${columnsOf<'api_tokens'>(token).id}::text, ${auditColumn} from token`,
  )

const removeOwn = removal('api_tokens.delete', 'api_token.revoke')
const removeAny = removal('api_tokens.delete_any', 'api_token.revoke_any')

/** Revokes an API token of the caller. */
export const deleteApiToken = async (
  ctx: OpContext<SessionPrincipal>,
  id: string,
): Promise<Outcome<unknown>> => {
  const [row] = await removeOwn(ctx, { id, user_id: ctx.principal.userId })
  return found(row)
}

/** Revokes an API token of any user, for an administrator. */
export const deleteUserApiToken = async (
  ctx: OpContext<SessionPrincipal>,
  { userId, id }: { readonly userId: string; readonly id: string },
): Promise<Outcome<unknown>> => {
  const [row] = await removeAny(ctx, { id, user_id: userId })
  return found(row)
}

/** The principal of an API token, and the milliseconds until the token expires, at most a day. */
export interface UsedApiToken {
  readonly principal: BearerPrincipal
  readonly expiresIn: number
}

const byHash = { hash: 'bytes' } as const
const byId = { id: 'uuid' } as const

const liveColumns = {
  id: 'text',
  ...principalColumns,
  scopes: 'text',
  expires_in: 'int',
} as const

/** The live API tokens, as `token`, with their users, as `person`. Ends with a condition. */
export const fromLiveTokens = sql`
  from api_tokens token join users person on person.id = token.user_id
  where (token.expires_at is null or token.expires_at > now()) and ${columnsOf<'users'>(sql`person`).deleted_at} is null
    and not ${columnsOf<'users'>(sql`person`).is_disabled}`

const selectLive = (matches: SQL): SQL => {
  const { id, scopes, expires_at } = columnsOf<'api_tokens'>(token)
  return sql`
    select ${id}::text, ${selectPrincipal(sql`person`)},
      array_to_string(${scopes}, ' ') as scopes,
      least(floor(extract(epoch from ${expires_at} - now()) * 1000), 86400000)::int as expires_in
    ${fromLiveTokens} and ${matches}`
}

const useLive = (matches: SQL): SQL => sql`
  with used as (
    update api_tokens token set ${assignments<'api_tokens'>({ last_used_at: sql`now()` })}
    where ${matches} and (expires_at is null or expires_at > now())
      and ${isUseRecorded(columnsOf<'api_tokens'>(token).last_used_at)} is not true
  )
  ${selectLive(matches)}`

const hasHash = ({ hash }: Placeholders<typeof byHash>): SQL =>
  sql`${columnsOf<'api_tokens'>(token).hash} = ${hash}`
const hasId = ({ id }: Placeholders<typeof byId>): SQL => sql`${columnsOf<'api_tokens'>(token).id} = ${id}`

const liveByHash = statement('api_tokens.select_live', byHash, liveColumns, (p) => selectLive(hasHash(p)))
const useByHash = statement('api_tokens.use', byHash, liveColumns, (p) => useLive(hasHash(p)))
const liveById = statement('api_tokens.select_live_by_id', byId, liveColumns, (p) => selectLive(hasId(p)))
const useById = statement('api_tokens.use_by_id', byId, liveColumns, (p) => useLive(hasId(p)))

/**
 * The principal of the API token with this hash or id; null when there is none or it has expired. Updates `last_used_at`.
 */
export const selectApiTokenPrincipal = async (
  db: Database,
  key: { readonly hash: Buffer } | { readonly id: string },
): Promise<UsedApiToken | null> => {
  const [row] = await ('hash' in key
    ? readAndRecordUse(
        () => useByHash(db, key),
        () => liveByHash(db, key),
      )
    : readAndRecordUse(
        () => useById(db, key),
        () => liveById(db, key),
      ))
  if (row === undefined) return null
  const credential = { kind: 'api_token' as const, tokenId: row.id, scopes: parseScopes(row.scopes) }
  return {
    principal: { ...readPrincipal(row), credential },
    expiresIn: row.expires_in,
  }
}
