import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext } from '../statements/context.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { firstRow } from '../statements/row-statements.ts'
import { retentionTime } from '../shared/retention.ts'
import { and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { type EndedLogin, loginHashes } from './logout-tokens.ts'
import { logoutTokens, oidcCodes } from '../schema/tables.ts'

/** Lifetime of a code in seconds, from when the provider has sent the browser back. */
const oidcCodeLifetime = 60

const insert = builtStatement(
  'oidc_codes.insert',
  {
    hash: 'bytes',
    sealed: 'bytes',
    subject_hash: 'bytes?',
    sid_hash: 'bytes?',
    begun_at: 'int8',
    lifetime: 'int',
  },
  (db, p) =>
    db.insert(oidcCodes).values({
      hash: p.hash,
      sealed: p.sealed,
      subject_hash: p.subject_hash,
      sid_hash: p.sid_hash,
      expires_at: sql`to_timestamp(${p.begun_at} / 1000.0) + make_interval(secs => ${p.lifetime})`,
    }),
)

/** Whom a code is of. */
interface CodeOwner extends EndedLogin {
  readonly subject: string
}

interface NewCode {
  readonly hash: Buffer
  readonly sealed: Buffer
  readonly owner: CodeOwner
  /** When the provider has sent the browser back, by the clock of the database, in milliseconds since the epoch. */
  readonly begunAt: number
}

/** Stores a sealed identity under the hash of a code. */
export const insertOidcCode = async (
  { db }: StatementContext,
  { hash, sealed, owner, begunAt }: NewCode,
): Promise<void> => {
  const values = { hash, sealed, ...loginHashes(owner), begun_at: begunAt }
  await insert(db, { ...values, lifetime: oidcCodeLifetime })
}

const removeOfLogin = builtStatement(
  'oidc_codes.end_login',
  { subject_hash: 'bytes?', sid_hash: 'bytes?' },
  (db, p) =>
    db.delete(oidcCodes).where(
      and(
        sql`(${p.subject_hash} is null or ${oidcCodes.subject_hash} = ${p.subject_hash})`,
        sql`(${p.sid_hash} is null or ${oidcCodes.sid_hash} = ${p.sid_hash}
            or (${oidcCodes.sid_hash} is null and ${p.subject_hash} is not null))`,
      ),
    ),
)

/**
 * Deletes the codes that nobody has exchanged yet of a login that a provider has ended. Waits for exchanges that have taken theirs and not
 * committed.
 */
export const removeCodesOfLogin = async ({ db }: StatementContext, ended: EndedLogin): Promise<void> => {
  await removeOfLogin(db, loginHashes(ended))
}

const byHash = { hash: 'bytes', lifetime: 'int' } as const

/** A time further ahead than the lifetime is from before the clock was set back. */
const isLive = (p: Placeholders<typeof byHash>): SQL =>
  sql`${oidcCodes.expires_at} between now() and now() + make_interval(secs => ${p.lifetime})`

/**
 * Whether the provider has ended the login since the browser came back. A logout removes the codes that there are; this one may have been
 * stored after that.
 */
const hasEnded = (p: Placeholders<typeof byHash>): SQL => sql`exists (
  select from logout_tokens
  where (${logoutTokens.subject_hash} = ${oidcCodes.subject_hash}
      or (${logoutTokens.subject_hash} is null and ${logoutTokens.sid_hash} = ${oidcCodes.sid_hash}))
    and (${logoutTokens.sid_hash} is null or ${oidcCodes.sid_hash} is null or ${logoutTokens.sid_hash} = ${oidcCodes.sid_hash})
    and ${logoutTokens.received_at} >= ${oidcCodes.expires_at} - make_interval(secs => ${p.lifetime}))`

const isUsable = (p: Placeholders<typeof byHash>): SQL<boolean> =>
  sql<boolean>`(${isLive(p)} and not ${hasEnded(p)})`

const select = builtStatement('oidc_codes.select', byHash, (db, p) =>
  db
    .select({ sealed: oidcCodes.sealed })
    .from(oidcCodes)
    .where(and(eq(oidcCodes.hash, p.hash), isUsable(p))),
)

/** The sealed identity of a code, which stays usable. Null if it was used, has expired, or belongs to a login that its provider has ended. */
export const readOidcCode = async ({ db }: StatementContext, hash: Buffer): Promise<Buffer | null> =>
  firstRow(await select(db, { hash, lifetime: oidcCodeLifetime }))?.sealed ?? null

const take = builtStatement('oidc_codes.take', byHash, (db, p) =>
  db
    .delete(oidcCodes)
    .where(eq(oidcCodes.hash, p.hash))
    .returning({ sealed: oidcCodes.sealed, is_usable: isUsable(p) }),
)

/** Uses a code up. Null if it was used, has expired, or belongs to a login that its provider has ended. */
export const takeOidcCode = async ({ db }: StatementContext, hash: Buffer): Promise<Buffer | null> => {
  const row = firstRow(await take(db, { hash, lifetime: oidcCodeLifetime }))
  return row?.is_usable === true ? row.sealed : null
}

/** Deletes expired codes. */
export const removeExpiredOidcCodes = deletionInBatches('oidc_codes.delete_expired', {
  parameters: {},
  table: oidcCodes,
  condition: () => sql`expires_at <= ${retentionTime}`,
})
