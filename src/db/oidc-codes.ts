import { deletionInBatches } from './engine/batches.ts'
import { builtStatement } from './engine/built-statement.ts'
import { firstRow } from './engine/row-statements.ts'
import { retentionTime } from './engine/retention.ts'
import type { Runner } from './engine/transaction.ts'
import { eq, sql } from './schema/drizzle.ts'
import { oidcCodes } from './schema/tables.ts'

/** Lifetime of a code in seconds. */
export const oidcCodeLifetime = 60

const insert = builtStatement(
  'oidc_codes.insert',
  { hash: 'bytes', sealed: 'bytes', lifetime: 'int' },
  (db, p) =>
    db.insert(oidcCodes).values({
      hash: p.hash,
      sealed: p.sealed,
      expires_at: sql`now() + make_interval(secs => ${p.lifetime})`,
    }),
)

/** Stores a sealed identity under the hash of a code. */
export const insertOidcCode = async (
  db: Runner,
  code: { readonly hash: Buffer; readonly sealed: Buffer },
): Promise<void> => {
  await insert(db, { ...code, lifetime: oidcCodeLifetime })
}

// A time further ahead than the lifetime is from before the clock was set back.
const take = builtStatement('oidc_codes.take', { hash: 'bytes', lifetime: 'int' }, (db, p) =>
  db
    .delete(oidcCodes)
    .where(eq(oidcCodes.hash, p.hash))
    .returning({
      sealed: oidcCodes.sealed,
      is_live: sql<boolean>`${oidcCodes.expires_at} between now() and now() + make_interval(secs => ${p.lifetime})`,
    }),
)

/** Uses a code up. Null if it was used or has expired. */
export const takeOidcCode = async (db: Runner, hash: Buffer): Promise<Buffer | null> => {
  const row = firstRow(await take(db, { hash, lifetime: oidcCodeLifetime }))
  return row?.is_live === true ? row.sealed : null
}

/** Deletes expired codes. */
export const removeExpiredOidcCodes = deletionInBatches('oidc_codes.delete_expired', {
  parameters: {},
  table: oidcCodes,
  condition: () => sql`expires_at <= ${retentionTime}`,
})
