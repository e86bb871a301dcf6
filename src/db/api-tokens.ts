import type { Client } from '../domain/audit.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { parseScopes, type Scope } from '../domain/scopes.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import {
  type Created,
  createOnce,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { apiTokenJson } from './read-models.ts'
import {
  conditionsOf,
  createdAt,
  filterBy,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { allowsOwn, callerOf, callerParameters } from './access/permissions.ts'
import { lastUsedPrecision, notingUse, parseRole } from './sessions.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

/** The fields of a new API token. */
export interface NewApiToken {
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Null when it does not expire. */
  readonly expiresAt: string | null
  /** SHA-256 of the token. */
  readonly hash: Buffer
}

/** Seals a token for the row with this id, so that its creation can be replayed. */
export type SealToken = (id: string) => string

const token = sql.raw('token')

const insert = statement(
  {
    id: 'uuid',
    name: 'text',
    hash: 'bytes',
    scopes: 'text[]',
    expires_at: 'instant?',
    sealed_token: 'text',
    ...callerParameters,
    ...idempotencyParameters,
    ...auditParameters,
  },
  { id: 'text', json: 'text', ...auditColumns },
  (p) => sql`
    with token as (
      insert into api_tokens (id, user_id, name, hash, scopes, expires_at)
      select ${p.id}, ${p.caller}, ${p.name}, ${p.hash}, ${p.scopes}, ${p.expires_at}
      where ${p.expires_at} is null or ${p.expires_at} > now() returning *
    ), answer as (
      select id, left(${apiTokenJson(token)}, -1) || ',"sealed_token":"' || ${p.sealed_token} || '"}' as json from token
    ), kept as (
      ${keepAnswer(p, sql`answer`)}
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'api_token.created', { user: sql`user_id`, token: sql`id` })} from token`,
    )})
    select id::text, ${apiTokenJson(token)} as json, ${auditColumn} from token`,
)

/**
 * Creates an API token of the principal: its id and JSON text; null when it would have expired already. What is kept for a
 * repeat of the request has the member `sealed_token`, and so has the JSON of a replay.
 */
export const insertApiToken = (
  db: Database,
  principal: Principal,
  client: Client,
  { name, scopes, expiresAt, hash }: NewApiToken,
  sealToken: SealToken,
  idempotency: Idempotency | null,
): Promise<Created | null> => {
  const create = async (): Promise<Created | null> => {
    const id = newId()
    const fields = { id, name, hash, scopes, expires_at: expiresAt, sealed_token: sealToken(id) }
    const values = { ...fields, ...callerOf(principal), ...idempotencyValues(idempotency) }
    const row = onlyRow(await insert(db, { ...values, ...auditValues(client, principal) }))
    return row && { ...row, replayed: false }
  }
  return createOnce<Created | null>(db, idempotency, create, (earlier) => earlier)
}

/** A page of the principal's own API tokens; those that have expired stay until they are revoked. */
export const selectApiTokens = (db: Database, principal: Principal, page: PageRequest): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'api_tokens',
      from: sql`api_tokens item`,
      seenBecause: (caller) => [allowsOwn('api_token.see', caller, sql`item`)],
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => apiTokenJson(row),
    },
    principal,
    page,
  )

const ofUser = { user_id: filterBy('uuid', (value) => sql`item.user_id = ${value}`) }

/** A page of the API tokens of one user, for an administrator. */
export const selectUserApiTokens = (
  db: Database,
  principal: Principal,
  userId: string,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'user_api_tokens',
      from: sql`api_tokens item`,
      seenBecause: (caller) => [allowsOwn('api_token.see_any', caller, sql`item`)],
      filters: conditionsOf(ofUser, { user_id: userId }),
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => apiTokenJson(row),
    },
    principal,
    page,
  )

const revoke = (permission: 'api_token.revoke' | 'api_token.revoke_any') =>
  statement(
    { id: 'uuid', user_id: 'uuid', ...callerParameters, ...auditParameters },
    { id: 'text', ...auditColumns },
    (p) => sql`
      with token as (
        delete from api_tokens token
        where id = ${p.id} and user_id = ${p.user_id} and ${allowsOwn(permission, p, token)} returning *
      ), audit as (${audit(
        p,
        sql`${auditEvent(p, 'api_token.revoked', { user: sql`user_id`, token: sql`id` })} from token`,
      )})
      select id::text, ${auditColumn} from token`,
  )

const revokeOwn = revoke('api_token.revoke')
const revokeAny = revoke('api_token.revoke_any')

/** Revokes an API token of the principal. */
export const deleteApiToken = async (
  db: Database,
  principal: Principal,
  client: Client,
  id: string,
): Promise<Outcome<unknown>> => {
  const values = { id, user_id: principal.userId, ...callerOf(principal), ...auditValues(client, principal) }
  return found(onlyRow(await revokeOwn(db, values)))
}

/** Revokes an API token of any user, for an administrator. */
export const deleteUserApiToken = async (
  db: Database,
  principal: Principal,
  client: Client,
  userId: string,
  id: string,
): Promise<Outcome<unknown>> => {
  const values = { id, user_id: userId, ...callerOf(principal), ...auditValues(client, principal) }
  return found(onlyRow(await revokeAny(db, values)))
}

/** An API token that was shown, with the milliseconds until it expires, at most a day. */
export interface UsedApiToken {
  readonly principal: Principal
  readonly expiresIn: number
}

const shownParameters = { hash: 'bytes' } as const
const shownColumns = {
  id: 'text',
  user_id: 'text',
  role: 'text',
  scopes: 'text',
  expires_in: 'int',
} as const

const selectShown = (p: Placeholders<typeof shownParameters>): SQL => sql`
  select token.id::text, token.user_id::text, users.role, array_to_string(token.scopes, ' ') as scopes,
    least(floor(extract(epoch from token.expires_at - now()) * 1000), 86400000)::int as expires_in
  from api_tokens token join users on users.id = token.user_id
  where token.hash = ${p.hash} and (token.expires_at is null or token.expires_at > now())
    and users.deleted_at is null`

const shown = statement(shownParameters, shownColumns, selectShown)

const useShown = statement(
  shownParameters,
  shownColumns,
  (p) => sql`
    with used as (
      update api_tokens set last_used_at = now()
      where hash = ${p.hash} and (expires_at is null or expires_at > now())
        and (last_used_at is null or last_used_at < now() - ${lastUsedPrecision})
    )
    ${selectShown(p)}`,
)

/** Who shows the API token with this hash, which this uses; null when there is none or it has expired. */
export const selectApiTokenPrincipal = async (db: Database, hash: Buffer): Promise<UsedApiToken | null> => {
  const rows = await notingUse(
    () => useShown(db, { hash }),
    () => shown(db, { hash }),
  )
  const row = onlyRow(rows)
  if (row === null) return null
  const credential = { kind: 'api_token' as const, tokenId: row.id, scopes: parseScopes(row.scopes) }
  return {
    principal: { userId: row.user_id, role: parseRole(row.role), credential },
    expiresIn: row.expires_in,
  }
}
