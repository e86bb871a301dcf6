import type { AccountFacts } from './lock.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { firstRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { type ChallengedBy, insertOneTimeToken } from './one-time-tokens.ts'
import { eq, sql } from '../schema/drizzle.ts'
import { installation, users } from '../schema/tables.ts'

/** Registration, and sign-in with a password. */

const hasInstallation = query(
  'installation.exists',
  {},
  { exists: 'bool' },
  () => sql`select exists (select from installation)`,
)

/** Whether anybody has ever registered. */
export const hasAccounts = async (ctx: StatementContext): Promise<boolean> => {
  const [row] = await hasInstallation(ctx, {})
  return row?.exists ?? true
}

const claim = builtStatement('installation.claim', {}, (db) =>
  db
    .insert(installation)
    .values({ singleton: true })
    .onConflictDoNothing()
    .returning({ singleton: installation.singleton }),
)

/** Records that there is an account. True if it is the first: of concurrent transactions, the others wait, and one claims. */
export const claimInstallation = async ({ db }: TransactionContext): Promise<boolean> =>
  (await claim(db, {})).length > 0

const storedPassword = {
  userId: users.id,
  passwordHash: users.password_hash,
  mayUsePassword: users.may_use_password,
}

const selectByEmail = builtStatement('users.select_credentials', { email: 'text' }, (db, p) =>
  db.select(storedPassword).from(users).where(eq(users.email, p.email)),
)

const selectByUsername = builtStatement(
  'users.select_credentials_by_username',
  { username: 'text' },
  (db, p) => db.select(storedPassword).from(users).where(eq(users.username, p.username)),
)

/** An account, and the hash that a sign-in verifies its password against. */
export interface StoredPassword {
  readonly userId: string
  /** Null without a password. */
  readonly passwordHash: string | null
  /** Whether an operator has exempted the account from OIDC_ONLY. */
  readonly mayUsePassword: boolean
}

/** The stored password of the account with this address, in canonical form; null when there is none. */
export const selectStoredPassword = async (
  { db }: StatementContext,
  email: string,
): Promise<StoredPassword | null> => firstRow(await selectByEmail(db, { email }))

/** The same of the account with this username. */
export const selectStoredPasswordByUsername = async (
  { db }: StatementContext,
  username: string,
): Promise<StoredPassword | null> => firstRow(await selectByUsername(db, { username }))

/** Lifetime of a challenge in seconds. */
export const challengeLifetime = 300

/** Stores the challenge of a sign-in with a correct password, or with an identity, whose second factor is pending. */
export const insertChallenge = (
  tx: TransactionContext,
  { id }: AccountFacts,
  challenge: { readonly hash: Buffer; readonly identity?: ChallengedBy },
): Promise<void> =>
  insertOneTimeToken(tx, { purpose: 'sign_in', userId: id, lifetime: challengeLifetime, ...challenge })
