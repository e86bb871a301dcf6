import { hash } from 'node:crypto'
import { deletionInBatches } from './engine/batches.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { StatementContext } from './engine/context.ts'
import type { Placeholders } from './engine/parameters.ts'
import { firstRow } from './engine/row-statements.ts'
import { retentionTime } from './engine/retention.ts'
import type { Runner } from './engine/transaction.ts'
import { and, eq, type SQL, sql } from './schema/drizzle.ts'
import type { EndedLogin } from './logout-tokens.ts'
import { oidcCodes } from './schema/tables.ts'

/** Lifetime of a code in seconds. */
export const oidcCodeLifetime = 60

const insert = builtStatement(
  'oidc_codes.insert',
  { hash: 'bytes', sealed: 'bytes', subject_hash: 'bytes', sid_hash: 'bytes?', lifetime: 'int' },
  (db, p) =>
    db.insert(oidcCodes).values({
      hash: p.hash,
      sealed: p.sealed,
      subject_hash: p.subject_hash,
      sid_hash: p.sid_hash,
      expires_at: sql`now() + make_interval(secs => ${p.lifetime})`,
    }),
)

const hashOf = (issuer: string, id: string): Buffer => hash('sha256', JSON.stringify([issuer, id]), 'buffer')

const hashesOf = ({ issuer, subject, sid }: EndedLogin) => ({
  subject_hash: subject === null ? null : hashOf(issuer, subject),
  sid_hash: sid === null ? null : hashOf(issuer, sid),
})

/** Whom a code is of. */
interface CodeOwner extends EndedLogin {
  readonly subject: string
}

/** Stores a sealed identity under the hash of a code. */
export const insertOidcCode = async (
  db: Runner,
  code: { readonly hash: Buffer; readonly sealed: Buffer },
  owner: CodeOwner,
): Promise<void> => {
  const subject_hash = hashOf(owner.issuer, owner.subject)
  await insert(db, { ...code, ...hashesOf(owner), subject_hash, lifetime: oidcCodeLifetime })
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

/** Deletes the codes that nobody has exchanged yet of a login that a provider has ended. */
export const removeCodesOfLogin = async ({ db }: StatementContext, ended: EndedLogin): Promise<void> => {
  await removeOfLogin(db, hashesOf(ended))
}

const byHash = { hash: 'bytes', lifetime: 'int' } as const

/** A time further ahead than the lifetime is from before the clock was set back. */
const isLive = (p: Placeholders<typeof byHash>): SQL<boolean> =>
  sql<boolean>`${oidcCodes.expires_at} between now() and now() + make_interval(secs => ${p.lifetime})`

const select = builtStatement('oidc_codes.select', byHash, (db, p) =>
  db
    .select({ sealed: oidcCodes.sealed })
    .from(oidcCodes)
    .where(and(eq(oidcCodes.hash, p.hash), isLive(p))),
)

/** The sealed identity of a code, which stays usable. Null if it was used or has expired. */
export const readOidcCode = async ({ db }: StatementContext, hash: Buffer): Promise<Buffer | null> =>
  firstRow(await select(db, { hash, lifetime: oidcCodeLifetime }))?.sealed ?? null

const take = builtStatement('oidc_codes.take', byHash, (db, p) =>
  db
    .delete(oidcCodes)
    .where(eq(oidcCodes.hash, p.hash))
    .returning({ sealed: oidcCodes.sealed, is_live: isLive(p) }),
)

/** Uses a code up. Null if it was used, has expired, or belongs to a login that its provider has ended. */
export const takeOidcCode = async ({ db }: StatementContext, hash: Buffer): Promise<Buffer | null> => {
  const row = firstRow(await take(db, { hash, lifetime: oidcCodeLifetime }))
  return row?.is_live === true ? row.sealed : null
}

/** Deletes expired codes. */
export const removeExpiredOidcCodes = deletionInBatches('oidc_codes.delete_expired', {
  parameters: {},
  table: oidcCodes,
  condition: () => sql`expires_at <= ${retentionTime}`,
})
