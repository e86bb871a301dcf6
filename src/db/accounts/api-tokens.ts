import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  type BearerPrincipal,
  type Principal,
  type Relation,
  relationsToUser,
} from '../../domain/shared/permissions.ts'
import { parseScopes, type Scope } from '../../domain/shared/scopes.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsOwn } from '../access/permissions.ts'
import type { OwnAccount } from './lock.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter, type Placeholders, type ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { apiTokenJson } from '../shared/read-models.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { apiTokens, users } from '../schema/tables.ts'
import {
  isUseRecorded,
  principalColumns,
  readAndRecordUse,
  readPrincipal,
  selectPrincipal,
} from './sessions.ts'

const item = aliasedTable(apiTokens, 'item')
const token = aliasedTable(apiTokens, 'token')
const person = aliasedTable(users, 'person')

/** The fields of a new API token. */
export interface NewApiToken {
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Null when it does not expire. */
  readonly expiresAt: string | null
  /** SHA-256 of the token. */
  readonly hash: Buffer
}

const insert = builtStatement(
  'api_tokens.insert',
  {
    id: 'uuid',
    user_id: 'uuid',
    name: 'text',
    hash: 'bytes',
    scopes: 'text[]',
    expires_at: 'instant?',
  } satisfies ParametersOf<typeof apiTokens>,
  (db, p) => db.insert(apiTokens).values(p),
)

/** Inserts an API token of the caller. */
export const insertApiToken = async (
  { db }: TransactionContext,
  id: string,
  account: OwnAccount,
  { expiresAt: expires_at, ...fields }: NewApiToken,
): Promise<void> => {
  await insert(db, { ...fields, id, user_id: account.id, expires_at })
}

const reread = query(
  'api_tokens.reread',
  { id: 'uuid' },
  { json: 'text', is_expired: 'bool' },
  (p) => sql`
  select ${apiTokenJson(token)} as json, coalesce(${token.expires_at} <= now(), false) as is_expired
  from api_tokens token where ${token.id} = ${p.id}`,
)

/** An API token that the transaction has inserted, and whether it has expired already. */
export const viewApiToken = async (
  tx: TransactionContext,
  id: string,
): Promise<{ readonly json: string; readonly is_expired: boolean }> => expectRow(await reread(tx, { id }))

/** A page of the caller's own API tokens. Expired tokens stay until they are revoked. */
export const selectApiTokens = (
  { db, principal }: StatementContext<Principal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'api_tokens',
      table: apiTokens,
      branches: (caller) => onlyBranch(allowsOwn('api_token.see', caller, item.user_id)),
      ...newest,
      json: apiTokenJson,
    },
    principal,
    page,
  )

/** A page of the API tokens of one user, for an administrator. */
export const selectUserApiTokens = (
  { db, principal }: StatementContext<Principal>,
  userId: string,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'user_api_tokens',
      table: apiTokens,
      branches: (caller) =>
        onlyBranch(
          sql`${item.user_id} = ${parameter('user_id', 'uuid')} and ${allowsOwn('api_token.see_any', caller, item.user_id)}`,
        ),
      values: { user_id: userId },
      ...newest,
      json: apiTokenJson,
    },
    principal,
    page,
  )

/** What revoking an API token depends on. */
export interface ApiTokenFacts {
  readonly id: string
  readonly userId: string
  /** What the caller is to its user. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('api_tokens.lock', apiTokens, 'update')

const selectFacts = builtStatement('api_tokens.select_facts', { id: 'uuid', user_id: 'uuid' }, (db, p) =>
  db
    .select({ id: apiTokens.id })
    .from(apiTokens)
    .where(and(eq(apiTokens.id, p.id), eq(apiTokens.user_id, p.user_id))),
)

/** Locks an API token of a user, and reads it under the lock. */
export const lockApiToken = async (
  { db, principal }: TransactionContext<Principal>,
  { id, userId }: { readonly id: string; readonly userId: string },
): Promise<ApiTokenFacts | null> => {
  const { facts } = await pipeline(db, {
    lock: () => lock(db, { id }),
    facts: () => selectFacts(db, { id, user_id: userId }),
  })
  const [row] = facts
  return row === undefined ? null : { id, userId, relations: relationsToUser(principal, userId) }
}

/** An API token that the caller was found to be allowed to revoke. */
export type RevocableApiToken = Authorized<'api_token.revoke' | 'api_token.revoke_any', ApiTokenFacts>

const remove = rowDeletion('api_tokens.delete', apiTokens)

/** Revokes an API token. */
export const removeApiToken = async (
  { db }: TransactionContext,
  { id }: RevocableApiToken,
): Promise<void> => {
  await remove(db, { id })
}

/** The principal of an API token, and the milliseconds until the token expires, at most a day. */
export interface UsedApiToken {
  readonly principal: BearerPrincipal
  readonly expiresIn: number
  /** Whether it rests until a sign-in of its user with an identity provider. */
  readonly isSuspended: boolean
}

const byHash = { hash: 'bytes' } as const
const byId = { id: 'uuid' } as const

const liveColumns = {
  id: 'text',
  ...principalColumns,
  scopes: 'text',
  expires_in: 'int',
  is_suspended: 'bool',
} as const

/** The live API tokens, as `token`, with their users, as `person`. Ends with a condition. */
export const fromLiveTokens = sql`
  from api_tokens token join users person on ${person.id} = ${token.user_id}
  where (${token.expires_at} is null or ${token.expires_at} > now()) and ${person.deleted_at} is null
    and not ${person.is_disabled}`

const selectLive = (matches: SQL): SQL => sql`
  select ${token.id}::text, ${selectPrincipal(person)},
    array_to_string(${token.scopes}, ' ') as scopes,
    least(
      floor(extract(epoch from least(${token.expires_at}, ${person.sign_in_due_at}) - now()) * 1000), 86400000
    )::int as expires_in, ${isSignInDue(person)} as is_suspended
  ${fromLiveTokens} and ${matches}`

const useLive = (matches: SQL): SQL => sql`
  with used as ${builder
    .update(token)
    .set({ last_used_at: sql`now()` })
    .where(
      sql`${matches} and (${token.expires_at} is null or ${token.expires_at} > now()) and ${isUseRecorded(token.last_used_at)} is not true`,
    )}
  ${selectLive(matches)}`

const hasHash = ({ hash }: Placeholders<typeof byHash>): SQL => sql`${token.hash} = ${hash}`
const hasId = ({ id }: Placeholders<typeof byId>): SQL => sql`${token.id} = ${id}`

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
    isSuspended: row.is_suspended,
  }
}
