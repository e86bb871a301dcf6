import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import { allowsUser } from './access/permissions.ts'
import { attemptParameter, clearAttempts } from './attempts.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { instantText } from './engine/instant-text.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { isOneTimeToken } from './one-time-tokens.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  readStarted,
  sessionParameters,
  sessionValues,
  startedColumns,
  type StartedSession,
  startSession,
} from './sessions.ts'

const person = sql.raw('person')
const factor = sql.raw('factor')

/** A user's second factor. */
export interface SecondFactor {
  readonly userId: string
  /** The sealed TOTP secret. */
  readonly secret: Buffer
  readonly isConfirmed: boolean
}

const factorColumns = { user_id: 'text', secret: 'bytes', is_confirmed: 'bool' } as const

/** The columns of the row `factor`. */
const selectFactor = (): SQL => {
  const { user_id, secret, confirmed_at } = columnsOf<'second_factors'>(factor)
  return sql`select ${user_id}::text, ${secret}, ${confirmed_at} is not null as is_confirmed`
}

const readFactor = ({
  user_id: userId,
  secret,
  is_confirmed: isConfirmed,
}: {
  readonly user_id: string
  readonly secret: Buffer
  readonly is_confirmed: boolean
}): SecondFactor => ({ userId, secret, isConfirmed })

/** A verified code in the form for statements: the time step of a TOTP code, or the hash of a recovery code. */
export type SecondFactorCode = { readonly step: number } | { readonly recoveryHash: Buffer }

export const codeParameters = { step: 'int8', recovery_hash: 'bytes' } as const

/** Values for `codeParameters`. The parameter of the other kind gets a value that matches nothing: step -1, an empty hash. */
export const codeValues = (code: SecondFactorCode) =>
  'step' in code
    ? { step: code.step, recovery_hash: Buffer.alloc(0) }
    : { step: -1, recovery_hash: code.recoveryHash }

/** A part of a statement that deletes the recovery code. */
const deleteRecoveryCode = (p: Placeholders<typeof codeParameters>, userId: SQL): SQL =>
  sql`delete from recovery_codes where user_id = ${userId} and hash = ${p.recovery_hash} returning user_id`

/**
 * Parts of a statement that use a code: `proven` has the user's id if the code was valid. A code is accepted once, and never after
 * a newer one (RFC 6238 §5.2), even under concurrent requests.
 */
export const consumeCode = (p: Placeholders<typeof codeParameters>, userId: SQL): SQL => sql`
  stepped as (
    update second_factors set ${assignments<'second_factors'>({ last_step: p.step })}
    where user_id = ${userId} and confirmed_at is not null and last_step < ${p.step} returning user_id
  ), recovered as (
    ${deleteRecoveryCode(p, userId)}
  ), proven as (
    select user_id as id from stepped union all select user_id from recovered
  )`

const selectState = query(
  'second_factors.select_state',
  {},
  { enabled: 'bool', confirmed_at: 'text?', recovery_codes_left: 'int' },
  (p) => {
    const { user_id, confirmed_at } = columnsOf<'second_factors'>(factor)
    return sql`
      select ${confirmed_at} is not null as enabled, ${instantText(confirmed_at)} as confirmed_at,
        (select count(*)::int from recovery_codes where user_id = ${p.caller}) as recovery_codes_left
      from (select) one left join second_factors factor on ${user_id} = ${p.caller}`
  },
)

/** Whether the caller has a second factor, since when, and the number of recovery codes that are left. */
export const selectSecondFactorState = async (ctx: OpContext<Principal>) => {
  const [row] = await selectState(ctx, {})
  if (row === undefined) throw new Error('The state of a second factor has no row')
  return row
}

const selectOwn = query(
  'second_factors.select',
  {},
  factorColumns,
  (p) => sql`${selectFactor()} from second_factors factor where user_id = ${p.caller}`,
)

/** The caller's second factor, confirmed or not. */
export const selectSecondFactor = async (ctx: OpContext<Principal>): Promise<SecondFactor | null> => {
  const [row] = await selectOwn(ctx, {})
  return row === undefined ? null : readFactor(row)
}

const insert = query(
  'second_factors.insert',
  { old_hash: 'text', secret: 'bytes', ...attemptParameter },
  { user_id: 'text', username: 'text' },
  (p) => {
    const { columns, values } = insertion<'second_factors'>({
      user_id: columnsOf<'users'>(person).id,
      secret: p.secret,
    })
    const replaced = assignments<'second_factors'>({ secret: sql`excluded.secret`, created_at: sql`now()` })
    return sql`
      with person as (
        select * from users where id = ${p.caller} and password_hash = ${p.old_hash}
      ), factor as (
        insert into second_factors as factor (${columns}) select ${values} from person
        on conflict (user_id) do update set ${replaced} where factor.confirmed_at is null
        returning *
      ), cleared as (
        ${clearAttempts(p, person)}
      ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.enrolled', { user: sql`user_id` })} from factor`)})
      select ${columnsOf<'second_factors'>(factor).user_id}::text, ${columnsOf<'users'>(person).username}, ${auditColumn}
      from factor, person`
  },
)

/** A sealed unconfirmed secret, and the hash that the password was verified against. */
interface Enrolment {
  readonly oldHash: string
  readonly secret: Buffer
  readonly attemptKey: Buffer
}

/**
 * Stores an unconfirmed secret of the caller, and returns their username; null when they have a confirmed secret, or their password
 * has changed.
 */
export const insertSecondFactor = async (
  ctx: OpContext<SessionPrincipal>,
  { oldHash, secret, attemptKey }: Enrolment,
): Promise<string | null> => {
  const [row] = await insert(ctx, { old_hash: oldHash, secret, attempt_key: attemptKey })
  return row?.username ?? null
}

const confirm = query(
  'second_factors.confirm',
  { secret: 'bytes', step: 'int8', recovery_hashes: 'text[]', ...attemptParameter },
  { user_id: 'text' },
  (p) => {
    const { user_id } = columnsOf<'second_factors'>(factor)
    const code = insertion<'recovery_codes'>({ hash: sql`decode(code.hash, 'hex')`, user_id })
    return sql`
      with factor as (
        update second_factors set ${assignments<'second_factors'>({ confirmed_at: sql`now()`, last_step: p.step })}
        where user_id = ${p.caller} and secret = ${p.secret} and confirmed_at is null returning *
      ), codes as (
        insert into recovery_codes (${code.columns})
        select ${code.values} from factor, unnest(${p.recovery_hashes}) as code (hash)
      ), cleared as (
        ${clearAttempts(p, factor)}
      ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.confirmed', { user: sql`user_id` })} from factor`)})
      select ${user_id}::text, ${auditColumn} from factor`
  },
)

/** The sealed secret and the time step of the code that proved it, and the hashes of new recovery codes. */
interface Confirmation {
  readonly secret: Buffer
  readonly step: number
  readonly recoveryHashes: readonly Buffer[]
  readonly attemptKey: Buffer
}

/** Confirms the caller's secret and stores recovery codes. False when the secret has changed. */
export const confirmSecondFactor = async (
  ctx: OpContext<SessionPrincipal>,
  { secret, step, recoveryHashes, attemptKey }: Confirmation,
): Promise<boolean> => {
  const rows = await confirm(ctx, {
    secret,
    step,
    recovery_hashes: recoveryHashes.map((hash) => hash.toString('hex')),
    attempt_key: attemptKey,
  })
  return rows.length > 0
}

const remove = query(
  'second_factors.delete',
  { ...codeParameters, code_key: 'bytes', password_key: 'bytes' },
  { user_id: 'text' },
  (p) => sql`
    with recovered as (
      ${deleteRecoveryCode(p, p.caller)}
    ), factor as (
      delete from second_factors
      where user_id = ${p.caller} and confirmed_at is not null
        and (last_step < ${p.step} or exists (select from recovered))
      returning user_id
    ), voided as (
      delete from one_time_tokens using factor
      where one_time_tokens.user_id = factor.user_id and purpose = 'sign_in'
    ), code_cleared as (
      ${clearAttempts({ attempt_key: p.code_key }, factor)}
    ), password_cleared as (
      ${clearAttempts({ attempt_key: p.password_key }, factor)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.disabled', { user: sql`user_id` })} from factor`)})
    select ${columnsOf<'second_factors'>(factor).user_id}::text, ${auditColumn} from factor`,
)

/** A code, and the keys of the counters of attempts at the code and at the password. */
interface Disabling {
  readonly code: SecondFactorCode
  readonly codeKey: Buffer
  readonly passwordKey: Buffer
}

/** Deletes the caller's second factor with its recovery codes. False when the code is no longer valid. */
export const deleteSecondFactor = async (
  ctx: OpContext<SessionPrincipal>,
  { code, codeKey, passwordKey }: Disabling,
): Promise<boolean> => {
  const rows = await remove(ctx, { ...codeValues(code), code_key: codeKey, password_key: passwordKey })
  return rows.length > 0
}

const reset = query(
  'second_factors.reset',
  { user_id: 'uuid' },
  { user_id: 'text' },
  (p) => sql`
    with factor as (
      delete from second_factors
      where user_id = (select id from users person where id = ${p.user_id} and ${allowsUser('user.set_password', p, person)})
      returning user_id
    ), voided as (
      delete from one_time_tokens using factor
      where one_time_tokens.user_id = factor.user_id and purpose = 'sign_in'
    ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.disabled', { user: sql`user_id` })} from factor`)})
    select ${columnsOf<'second_factors'>(factor).user_id}::text, ${auditColumn} from factor`,
)

/** Deletes the second factor of another user with its recovery codes. False when there is none. */
export const resetSecondFactor = async (ctx: OpContext<Principal>, userId: string): Promise<boolean> => {
  const rows = await reset(ctx, { user_id: userId })
  return rows.length > 0
}

const selectOfChallenge = query(
  'second_factors.select_of_challenge',
  { challenge_hash: 'bytes' },
  factorColumns,
  (p) => sql`
    ${selectFactor()} from one_time_tokens token join second_factors factor on factor.user_id = token.user_id
    where ${isOneTimeToken(sql`token`, 'sign_in', p.challenge_hash)} and factor.confirmed_at is not null`,
)

/** The second factor of a challenge; null when the challenge is unknown or expired. */
export const selectChallenged = async (
  ctx: OpContext,
  challengeHash: Buffer,
): Promise<SecondFactor | null> => {
  const [row] = await selectOfChallenge(ctx, { challenge_hash: challengeHash })
  return row === undefined ? null : readFactor(row)
}

const insertSession = query(
  'sessions.insert_by_code',
  { user_id: 'uuid', challenge_hash: 'bytes', ...codeParameters, ...attemptParameter, ...sessionParameters },
  startedColumns,
  (p) => sql`
    with ${consumeCode(p, p.user_id)}, challenge as (
      delete from one_time_tokens using proven
      where ${isOneTimeToken(sql`one_time_tokens`, 'sign_in', p.challenge_hash)} and user_id = proven.id
      returning user_id
    ), person as (
      select users.* from users join challenge on users.id = challenge.user_id where not users.is_disabled
    ), cleared as (
      ${clearAttempts(p, person)}
    ), ${startSession(p)}`,
)

/** A user's challenge, the code for it, and the hash of the new session's refresh token. */
interface AnsweredChallenge {
  readonly userId: string
  readonly challengeHash: Buffer
  readonly code: SecondFactorCode
  readonly attemptKey: Buffer
  readonly tokenHash: Buffer
}

/** Uses a challenge and a code, and starts a session; null when either is no longer valid. */
export const insertSessionBySecondFactor = async (
  ctx: OpContext,
  { userId, challengeHash, code, attemptKey, tokenHash }: AnsweredChallenge,
): Promise<StartedSession | null> => {
  const [row] = await insertSession(ctx, {
    user_id: userId,
    challenge_hash: challengeHash,
    ...codeValues(code),
    attempt_key: attemptKey,
    ...sessionValues(tokenHash),
  })
  return readStarted(row)
}

const selectAfter = statement(
  'second_factors.select_batch',
  { after: 'uuid', limit: 'int' },
  factorColumns,
  (p) => sql`
    ${selectFactor()} from second_factors factor where user_id > ${p.after} order by user_id limit ${p.limit}`,
)

/** Second factors in the order of their users' ids, after one of them. */
export const selectSecondFactors = async (
  db: Database,
  page: { readonly after: string; readonly limit: number },
): Promise<readonly SecondFactor[]> => (await selectAfter(db, page)).map(readFactor)

/** Stores the same secret under another seal, unless it has been replaced. */
export const updateSeal = statement(
  'second_factors.update_seal',
  { user_id: 'uuid', old_secret: 'bytes', new_secret: 'bytes' },
  {},
  (p) => sql`
    update second_factors set ${assignments<'second_factors'>({ secret: p.new_secret })}
    where user_id = ${p.user_id} and secret = ${p.old_secret}`,
)
