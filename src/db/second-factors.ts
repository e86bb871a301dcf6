import type { Client } from '../domain/audit.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import { attemptParameter, clearAttempts } from './attempts.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { instantText } from './engine/instant-text.ts'
import { renewSession } from './reauthentication.ts'
import {
  readStarted,
  sessionColumns,
  sessionParameters,
  sessionValues,
  startAuditedSession,
  type StartedSession,
} from './sessions.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

const person = sql.raw('person')

/** A user's second factor. */
export interface SecondFactor {
  readonly userId: string
  /** The sealed TOTP secret. */
  readonly secret: Buffer
  readonly isConfirmed: boolean
}

/** A code as the statements take it: the time step of a TOTP code, or the hash of a recovery code. */
export type Code = { readonly step: number } | { readonly recoveryHash: Buffer }

const codeParameters = { step: 'int8', recovery_hash: 'bytes' } as const

/** No step is before -1, and no hash is empty. */
const codeValues = (code: Code) =>
  'step' in code
    ? { step: code.step, recovery_hash: Buffer.alloc(0) }
    : { step: -1, recovery_hash: code.recoveryHash }

/**
 * Parts of a statement that use a code up: `proven` has the user's id if the code was still good. A code is not taken
 * twice, nor one that is older than the last (RFC 6238 §5.2), also when several race.
 */
const useCode = (p: Placeholders<typeof codeParameters>, userId: SQL): SQL => sql`
  stepped as (
    update second_factors set last_step = ${p.step}
    where user_id = ${userId} and confirmed_at is not null and last_step < ${p.step} returning user_id
  ), recovered as (
    delete from recovery_codes where user_id = ${userId} and hash = ${p.recovery_hash} returning user_id
  ), proven as (
    select user_id as id from stepped union all select user_id from recovered
  )`

const state = statement(
  { caller: 'uuid' },
  { enabled: 'bool', confirmed_at: 'text?', recovery_codes_left: 'int' },
  (p) => sql`
    select confirmed_at is not null as enabled, ${instantText(sql`confirmed_at`)} as confirmed_at,
      (select count(*)::int from recovery_codes where user_id = ${p.caller}) as recovery_codes_left
    from (select) one left join second_factors on user_id = ${p.caller}`,
)

/** Whether the principal signs in with a second factor, since when, and how many recovery codes are left. */
export const selectSecondFactorState = async (db: Database, principal: Principal) => {
  const row = onlyRow(await state(db, { caller: principal.userId }))
  if (row === null) throw new Error('The state is a row')
  return row
}

const own = statement(
  { caller: 'uuid' },
  { user_id: 'text', secret: 'bytes', is_confirmed: 'bool' },
  (p) => sql`
    select user_id::text, secret, confirmed_at is not null as is_confirmed from second_factors
    where user_id = ${p.caller}`,
)

type SecondFactorRow = { user_id: string; secret: Buffer; is_confirmed: boolean }

const readFactor = (row: SecondFactorRow | null): SecondFactor | null =>
  row && { userId: row.user_id, secret: row.secret, isConfirmed: row.is_confirmed }

/** The principal's second factor, confirmed or not. */
export const selectSecondFactor = async (db: Database, principal: Principal): Promise<SecondFactor | null> =>
  readFactor(onlyRow(await own(db, { caller: principal.userId })))

const enrol = statement(
  { caller: 'uuid', old_hash: 'text', secret: 'bytes', ...attemptParameter, ...auditParameters },
  { user_id: 'text', username: 'text', ...auditColumns },
  (p) => sql`
    with person as (
      select * from users where id = ${p.caller} and password_hash = ${p.old_hash}
    ), factor as (
      insert into second_factors as factor (user_id, secret) select id, ${p.secret} from person
      on conflict (user_id) do update set secret = excluded.secret, created_at = now()
      where factor.confirmed_at is null
      returning *
    ), cleared as (
      ${clearAttempts(p, person)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.enrolled', { user: sql`user_id` })} from factor`)})
    select factor.user_id::text, person.username, ${auditColumn} from factor, person`,
)

/**
 * Stores a sealed secret for the principal to confirm, and answers with their name; null when they have a confirmed one.
 */
export const insertSecondFactor = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  { oldHash, secret, attemptKey }: { oldHash: string; secret: Buffer; attemptKey: Buffer },
): Promise<string | null> => {
  const values = { caller: principal.userId, old_hash: oldHash, secret, attempt_key: attemptKey }
  return onlyRow(await enrol(db, { ...values, ...auditValues(client, principal) }))?.username ?? null
}

const confirm = statement(
  {
    caller: 'uuid',
    secret: 'bytes',
    step: 'int8',
    recovery_hashes: 'text[]',
    ...attemptParameter,
    ...auditParameters,
  },
  { user_id: 'text', ...auditColumns },
  (p) => sql`
    with factor as (
      update second_factors set confirmed_at = now(), last_step = ${p.step}
      where user_id = ${p.caller} and secret = ${p.secret} and confirmed_at is null returning *
    ), codes as (
      insert into recovery_codes (hash, user_id)
      select decode(hash, 'hex'), factor.user_id from factor, unnest(${p.recovery_hashes}) as hash
    ), cleared as (
      ${clearAttempts(p, sql`factor`)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.confirmed', { user: sql`user_id` })} from factor`)})
    select user_id::text, ${auditColumn} from factor`,
)

/** Confirms the secret that a code was checked with, and stores recovery codes. False when it has changed meanwhile. */
export const confirmSecondFactor = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  confirmed: { secret: Buffer; step: number; recoveryHashes: readonly Buffer[]; attemptKey: Buffer },
): Promise<boolean> => {
  const values = {
    caller: principal.userId,
    secret: confirmed.secret,
    step: confirmed.step,
    recovery_hashes: confirmed.recoveryHashes.map((hash) => hash.toString('hex')),
    attempt_key: confirmed.attemptKey,
  }
  return onlyRow(await confirm(db, { ...values, ...auditValues(client, principal) })) !== null
}

const disable = statement(
  { caller: 'uuid', ...codeParameters, code_key: 'bytes', password_key: 'bytes', ...auditParameters },
  { user_id: 'text', ...auditColumns },
  (p) => sql`
    with recovered as (
      delete from recovery_codes where user_id = ${p.caller} and hash = ${p.recovery_hash} returning user_id
    ), factor as (
      delete from second_factors
      where user_id = ${p.caller} and confirmed_at is not null
        and (last_step < ${p.step} or exists (select from recovered))
      returning user_id
    ), voided as (
      delete from one_time_tokens using factor
      where one_time_tokens.user_id = factor.user_id and purpose = 'sign_in'
    ), code_cleared as (
      ${clearAttempts({ attempt_key: p.code_key }, sql`factor`)}
    ), password_cleared as (
      ${clearAttempts({ attempt_key: p.password_key }, sql`factor`)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'second_factor.disabled', { user: sql`user_id` })} from factor`)})
    select user_id::text, ${auditColumn} from factor`,
)

/**
 * Removes the principal's second factor with its recovery codes, if the code is still good. The keys are those that the
 * attempts at the code and at the password are counted for.
 */
export const deleteSecondFactor = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  { code, codeKey, passwordKey }: { code: Code; codeKey: Buffer; passwordKey: Buffer },
): Promise<boolean> => {
  const keys = { code_key: codeKey, password_key: passwordKey }
  const values = { caller: principal.userId, ...codeValues(code), ...keys }
  return onlyRow(await disable(db, { ...values, ...auditValues(client, principal) })) !== null
}

const renewByCode = statement(
  { caller: 'uuid', current_session: 'uuid', ...codeParameters, ...attemptParameter, ...auditParameters },
  { id: 'text', ...auditColumns },
  (p) => sql`
    with ${useCode(p, p.caller)}, person as (
      select id from proven
    ), cleared as (
      ${clearAttempts(p, person)}
    ), ${renewSession(p)}
    select id::text, ${auditColumn} from renewed`,
)

/** Uses up a code, and notes that the principal's session proved it. False when the code is no good any more. */
export const updateAuthenticatedByCode = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  { code, attemptKey }: { code: Code; attemptKey: Buffer },
): Promise<boolean> => {
  const who = { caller: principal.userId, current_session: principal.credential.sessionId }
  const proof = { ...codeValues(code), attempt_key: attemptKey }
  return onlyRow(await renewByCode(db, { ...who, ...proof, ...auditValues(client, principal) })) !== null
}

const challenged = statement(
  { challenge_hash: 'bytes' },
  { user_id: 'text', secret: 'bytes', is_confirmed: 'bool' },
  (p) => sql`
    select factor.user_id::text, factor.secret, true as is_confirmed
    from one_time_tokens token join second_factors factor on factor.user_id = token.user_id
    where token.hash = ${p.challenge_hash} and token.purpose = 'sign_in' and token.expires_at > now()
      and factor.confirmed_at is not null`,
)

/** The second factor that a challenge waits for; null when the challenge is unknown or expired. */
export const selectChallenged = async (db: Database, challengeHash: Buffer): Promise<SecondFactor | null> =>
  readFactor(onlyRow(await challenged(db, { challenge_hash: challengeHash })))

const complete = statement(
  {
    user_id: 'uuid',
    challenge_hash: 'bytes',
    ...codeParameters,
    ...attemptParameter,
    ...sessionParameters,
  },
  sessionColumns,
  (p) => sql`
    with ${useCode(p, p.user_id)}, challenge as (
      delete from one_time_tokens using proven
      where hash = ${p.challenge_hash} and purpose = 'sign_in' and user_id = proven.id and expires_at > now()
      returning user_id
    ), person as (
      select users.* from users join challenge on users.id = challenge.user_id
    ), cleared as (
      ${clearAttempts(p, person)}
    ), ${startAuditedSession(p)}`,
)

/** Uses up a challenge and a code and starts a session; null when either is no good any more. */
export const insertSessionBySecondFactor = async (
  db: Database,
  userId: string,
  { challengeHash, code, attemptKey }: { challengeHash: Buffer; code: Code; attemptKey: Buffer },
  client: Client,
  tokenHash: Buffer,
): Promise<StartedSession | null> => {
  const proof = {
    user_id: userId,
    challenge_hash: challengeHash,
    ...codeValues(code),
    attempt_key: attemptKey,
  }
  return readStarted(onlyRow(await complete(db, { ...proof, ...sessionValues(client, tokenHash) })))
}

const batch = statement(
  { after: 'uuid', limit: 'int' },
  { user_id: 'text', secret: 'bytes', is_confirmed: 'bool' },
  (p) => sql`
    select user_id::text, secret, confirmed_at is not null as is_confirmed from second_factors
    where user_id > ${p.after} order by user_id limit ${p.limit}`,
)

/** Second factors in the order of their users' ids, behind one of them. */
export const selectSecondFactors = async (
  db: Database,
  after: string,
  limit: number,
): Promise<readonly SecondFactor[]> =>
  (await batch(db, { after, limit })).flatMap((row) => readFactor(row) ?? [])

/** Stores the same secret under another seal, unless it has been replaced meanwhile. */
export const updateSeal = statement(
  { user_id: 'uuid', old_secret: 'bytes', new_secret: 'bytes' },
  {},
  (p) => sql`
    update second_factors set secret = ${p.new_secret}
    where user_id = ${p.user_id} and secret = ${p.old_secret}`,
)
