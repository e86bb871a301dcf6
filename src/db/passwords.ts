import type { Client } from '../domain/audit.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import { attemptParameter, clearAttempts, countAttempt, waitColumn } from './attempts.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { newId } from './engine/ids.ts'
import { checkedOutcome, readOutcome } from './engine/outcome.ts'
import { allowsUser, callerOf, callerParameters } from './access/permissions.ts'
import { isRecentlyAuthenticated } from './reauthentication.ts'
import { onlyRow, statement } from './engine/statement.ts'

const person = sql.raw('person')

/**
 * Ends the sessions of the user `id`, but for the one `kept`, and voids what could still be used to get into the account.
 * To be selected from the row that was updated, so that it runs when that row is locked: it sees the session of a sign-in
 * with the old password that was a moment faster.
 */
const endAccess = (id: SQL, kept: SQL = sql`null`): SQL => sql`end_access(${id}, ${kept})`

const begin = statement(
  { user_id: 'uuid', ...attemptParameter },
  { wait: 'int', password_hash: 'text?' },
  (p) => sql`
    with counted as (${countAttempt(p)})
    select ${waitColumn(p)}, person.password_hash
    from (select) one left join users person on person.id = ${p.user_id}`,
)

/**
 * Counts an attempt of the principal to prove who they are, and looks up their password's hash; null when they have been
 * deleted. `wait` is the number of seconds until there may be an attempt, 0 for now.
 */
export const selectOwnPassword = async (
  db: Database,
  principal: SessionPrincipal,
  attemptKey: Buffer,
): Promise<{ readonly wait: number; readonly passwordHash: string | null }> => {
  const row = onlyRow(await begin(db, { user_id: principal.userId, attempt_key: attemptKey }))
  if (row === null) throw new Error('Counting answers with a row')
  return { wait: row.wait, passwordHash: row.password_hash }
}

const change = statement(
  {
    caller: 'uuid',
    current_session: 'uuid',
    old_hash: 'text',
    new_hash: 'text',
    ...attemptParameter,
    ...auditParameters,
  },
  { id: 'text', ...auditColumns },
  (p) => sql`
    with person as (
      update users set password_hash = ${p.new_hash}
      where id = ${p.caller} and password_hash = ${p.old_hash} returning id
    ), cleared as (
      ${clearAttempts(p, person)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'password.changed', { user: sql`id` })} from person`)})
    select id::text, ${endAccess(sql`id`, p.current_session)}, ${auditColumn} from person`,
)

/**
 * Changes the principal's password from the one that was verified against `oldHash`; their other sessions end. False when
 * it has changed meanwhile.
 */
export const updateOwnPassword = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  { oldHash, newHash, attemptKey }: { oldHash: string; newHash: string; attemptKey: Buffer },
): Promise<boolean> => {
  const hashes = { old_hash: oldHash, new_hash: newHash, attempt_key: attemptKey }
  const who = { caller: principal.userId, current_session: principal.credential.sessionId }
  return onlyRow(await change(db, { ...who, ...hashes, ...auditValues(client, principal) })) !== null
}

/** Seconds for which a token to reset a password works. */
export const resetTokenLifetime = 1_800

export const resetLifetime = sql.raw(`interval '${resetTokenLifetime} seconds'`)

/** How many mails to reset a password an account gets in an hour. */
const mailsPerHour = sql.raw('3')

const request = statement(
  { email: 'text', token_hash: 'bytes', ...auditParameters },
  { is_stored: 'bool', ...auditColumns },
  (p) => sql`
    with person as (
      select id from users where email = ${p.email} for no key update
    ), stored as (
      insert into one_time_tokens (hash, purpose, user_id, expires_at)
      select ${p.token_hash}, 'reset_password', id, now() + ${resetLifetime} from person
      where count_tokens(id, 'reset_password', interval '1 hour') < ${mailsPerHour}
      returning user_id
    ), audit as (${audit(p, auditEvent(p, 'password.reset_requested', { user: sql`(select id from person)` }))})
    select exists (select from stored) as is_stored, ${auditColumn}`,
)

/**
 * Stores a token to reset the password of the account with this address. False when there is no such account, or when
 * it had its mails for this hour; in either case something is written, so that it takes the same time.
 */
export const insertResetToken = async (
  db: Database,
  client: Client,
  email: string,
  tokenHash: Buffer,
): Promise<boolean> => {
  const row = onlyRow(await request(db, { email, token_hash: tokenHash, ...auditValues(client, null) }))
  return row?.is_stored ?? false
}

const resetToken = statement(
  { token_hash: 'bytes' },
  { user_id: 'text' },
  (p) => sql`
    select user_id::text from one_time_tokens
    where hash = ${p.token_hash} and purpose = 'reset_password' and expires_at > now()`,
)

/** Whether a token can reset a password now. */
export const selectHasResetToken = async (db: Database, tokenHash: Buffer): Promise<boolean> =>
  onlyRow(await resetToken(db, { token_hash: tokenHash })) !== null

const reset = statement(
  { token_hash: 'bytes', new_hash: 'text', ...auditParameters },
  { user_id: 'text', ...auditColumns },
  (p) => sql`
    with token as (
      delete from one_time_tokens
      where hash = ${p.token_hash} and purpose = 'reset_password' and expires_at > now() returning user_id
    ), person as (
      update users set password_hash = ${p.new_hash} from token where users.id = token.user_id returning users.id
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'password.reset', { user: sql`id`, actor: sql`id` })} from person`,
    )})
    select id::text as user_id, ${endAccess(sql`id`)}, ${auditColumn} from person`,
)

/** Uses a token up to set a password; all sessions of its user end. Answers whose it was, null when it was no good. */
export const resetPasswordByToken = async (
  db: Database,
  client: Client,
  tokenHash: Buffer,
  newHash: string,
): Promise<string | null> => {
  const values = { token_hash: tokenHash, new_hash: newHash, ...auditValues(client, null) }
  return onlyRow(await reset(db, values))?.user_id ?? null
}

const set = statement(
  {
    id: 'uuid',
    new_hash: 'text',
    resets_second_factor: 'bool',
    factor_audit_id: 'uuid',
    ...callerParameters,
    ...auditParameters,
  },
  { outcome: 'text', ...auditColumns },
  (p) => sql`
    with target as (
      select * from users person where id = ${p.id} and ${allowsUser('user.see', p, person)} for no key update
    ), checked as (
      select id, ${checkedOutcome(
        allowsUser('user.set_password', p, sql`target`),
        sql`null::text`,
        sql`null::text[]`,
        sql``,
        isRecentlyAuthenticated(p),
      )} as outcome
      from target
    ), person as (
      update users set password_hash = ${p.new_hash} from checked
      where users.id = checked.id and checked.outcome = 'done' returning users.id
    ), factor as (
      delete from second_factors using person where user_id = person.id and ${p.resets_second_factor}
      returning user_id as id
    ), audit as (${audit(
      p,
      sql`
        ${auditEvent(p, 'password.set', { user: sql`id` })} from person
        union all
        ${auditEvent(p, 'second_factor.disabled', { user: sql`id`, id: p.factor_audit_id })} from factor`,
    )})
    select outcome, ${endAccess(sql`person.id`)}, ${auditColumn} from checked left join person on true`,
)

/** Sets another user's password; their sessions end, and their second factor goes if it is to. */
export const setPassword = async (
  db: Database,
  principal: Principal,
  client: Client,
  userId: string,
  { newHash, resetsSecondFactor }: { newHash: string; resetsSecondFactor: boolean },
): Promise<Outcome<unknown>> => {
  const fields = { id: userId, new_hash: newHash, resets_second_factor: resetsSecondFactor }
  const values = { ...fields, factor_audit_id: newId(), ...callerOf(principal) }
  return readOutcome(onlyRow(await set(db, { ...values, ...auditValues(client, principal) })))
}
