import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import type { AccountFacts, OwnAccount, SecondFactor } from './lock.ts'
import { discardSecondFactor } from './end-access.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { instantText } from '../statements/instant-text.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { aliasedTable, and, eq, sql } from '../schema/drizzle.ts'
import { oneTimeTokens, recoveryCodes, secondFactors } from '../schema/tables.ts'

const factor = aliasedTable(secondFactors, 'factor')

/** A verified code: the time step of a TOTP code, or the hash of a recovery code. */
export type SecondFactorCode = { readonly step: number } | { readonly recoveryHash: Buffer }

const selectState = query(
  'second_factors.select_state',
  {},
  { is_enabled: 'bool', confirmed_at: 'text?', recovery_codes_left: 'int' },
  (p) => sql`
    select ${factor.confirmed_at} is not null as is_enabled, ${instantText(factor.confirmed_at)} as confirmed_at,
      (select count(*)::int from recovery_codes where ${recoveryCodes.user_id} = ${p.caller}) as recovery_codes_left
    from (select) one left join second_factors factor on ${factor.user_id} = ${p.caller}`,
)

/** Whether the caller has a second factor, since when, and the number of recovery codes that are left. */
export const selectSecondFactorState = async (ctx: StatementContext<Principal>) =>
  expectRow(await selectState(ctx, {}))

const selectOwn = builtStatement('second_factors.select', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ confirmed_at: secondFactors.confirmed_at })
    .from(secondFactors)
    .where(eq(secondFactors.user_id, p.user_id)),
)

/** Whether an enrolled second factor is confirmed. */
export type Enrolled = Pick<SecondFactor, 'isConfirmed'>

/** What the caller has enrolled; null when nothing. */
export const selectOwnEnrollment = async ({
  db,
  principal,
}: StatementContext<Principal>): Promise<Enrolled | null> => {
  const [row] = await selectOwn(db, { user_id: principal.userId })
  return row === undefined ? null : { isConfirmed: row.confirmed_at !== null }
}

const insert = builtStatement('second_factors.insert', { user_id: 'uuid', secret: 'bytes' }, (db, p) =>
  db
    .insert(secondFactors)
    .values({ user_id: p.user_id, secret: p.secret })
    .onConflictDoUpdate({
      target: secondFactors.user_id,
      set: { secret: p.secret, created_at: sql`now()` },
    }),
)

/** Stores a sealed unconfirmed secret of the caller, in place of an earlier one. */
export const replaceSecret = async (
  { db }: TransactionContext,
  { id }: OwnAccount,
  secret: Buffer,
): Promise<void> => {
  await insert(db, { user_id: id, secret })
}

const confirm = builtStatement('second_factors.confirm', { user_id: 'uuid', step: 'int8' }, (db, p) =>
  db
    .update(secondFactors)
    .set({ confirmed_at: sql`now()`, last_step: sql`${p.step}` })
    .where(eq(secondFactors.user_id, p.user_id)),
)

const insertCodes = statement(
  'recovery_codes.insert',
  { user_id: 'uuid', hashes: 'text[]' },
  {},
  (p) => sql`
    insert into recovery_codes (hash, user_id)
    select decode(code.hash, 'hex'), ${p.user_id} from unnest(${p.hashes}) as code (hash)`,
)

/** The time step of the code that proved the secret, and the hashes of new recovery codes. */
interface Confirmation {
  readonly step: number
  readonly recoveryHashes: readonly Buffer[]
}

/** Turns the caller's second factor on. */
export const confirmSecret = async (
  { db }: TransactionContext,
  { id }: OwnAccount,
  { step, recoveryHashes }: Confirmation,
): Promise<void> => {
  const hashes = recoveryHashes.map((hash) => hash.toString('hex'))
  await pipeline(db, {
    secret: () => confirm(db, { user_id: id, step }),
    codes: () => insertCodes(db, { user_id: id, hashes }),
  })
}

const useStep = builtStatement('second_factors.use_step', { user_id: 'uuid', step: 'int8' }, (db, p) =>
  db
    .update(secondFactors)
    .set({ last_step: sql`${p.step}` })
    .where(and(eq(secondFactors.user_id, p.user_id), sql`${secondFactors.last_step} < ${p.step}`))
    .returning({ user_id: secondFactors.user_id }),
)

const useRecoveryCode = builtStatement('recovery_codes.use', { user_id: 'uuid', hash: 'bytes' }, (db, p) =>
  db
    .delete(recoveryCodes)
    .where(and(eq(recoveryCodes.user_id, p.user_id), eq(recoveryCodes.hash, p.hash)))
    .returning({ user_id: recoveryCodes.user_id }),
)

/** Uses a code. False unless it is valid: a code is accepted once, and never after a newer one (RFC 6238 §5.2). */
export const useCode = async (
  { db }: TransactionContext,
  { userId: user_id }: SecondFactor,
  code: SecondFactorCode,
): Promise<boolean> => {
  const used = await ('step' in code
    ? useStep(db, { user_id, step: code.step })
    : useRecoveryCode(db, { user_id, hash: code.recoveryHash }))
  return used.length > 0
}

const removeChallenges = builtStatement('one_time_tokens.delete_challenges', { user_id: 'uuid' }, (db, p) =>
  db
    .delete(oneTimeTokens)
    .where(and(eq(oneTimeTokens.user_id, p.user_id), eq(oneTimeTokens.purpose, 'sign_in'))),
)

/** Turns a second factor off: deletes it with its recovery codes, and the challenges that wait for a code. */
export const removeSecondFactor = async (
  tx: TransactionContext,
  { id }: OwnAccount | Authorized<'user.set_password', AccountFacts>,
): Promise<void> => {
  await pipeline(tx.db, {
    secondFactor: () => discardSecondFactor(tx, id),
    challenges: () => removeChallenges(tx.db, { user_id: id }),
  })
}

const selectAfter = statement(
  'second_factors.select_batch',
  { after: 'uuid', limit: 'int' },
  { user_id: 'text', secret: 'bytes' },
  (p) => sql`
    select ${factor.user_id}::text, ${factor.secret} from second_factors factor
    where ${factor.user_id} > ${p.after} order by ${factor.user_id} limit ${p.limit}`,
)

/** Sealed secrets in the order of their users' ids, after one of them. */
export const selectSecondFactors = async (
  db: Database,
  page: { readonly after: string; readonly limit: number },
): Promise<readonly Pick<SecondFactor, 'userId' | 'secret'>[]> =>
  (await selectAfter(db, page)).map(({ user_id: userId, secret }) => ({ userId, secret }))

/** Stores the same secret under another seal, unless it has been replaced. */
export const updateSeal = builtStatement(
  'second_factors.update_seal',
  { user_id: 'uuid', old_secret: 'bytes', new_secret: 'bytes' },
  (db, p) =>
    db
      .update(secondFactors)
      .set({ secret: p.new_secret })
      .where(and(eq(secondFactors.user_id, p.user_id), eq(secondFactors.secret, p.old_secret))),
)
