import type { Outcome } from '../domain/outcome.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import { allowsUser } from './access/permissions.ts'
import { attemptParameter, clearAttempts, countAttempt, waitColumn } from './attempts.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import type { OpContext } from './engine/context.ts'
import { newId } from './engine/ids.ts'
import { checkedOutcome, readOutcome } from './engine/outcome.ts'
import { query } from './engine/statement.ts'
import { isOneTimeToken, newOneTimeToken } from './one-time-tokens.ts'
import { isRecentlyAuthenticated } from './reauthentication.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

const person = sql.raw('person')

/**
 * Ends the sessions of the user `id`, except `kept`, and invalidates everything else that gives access to the account. Select it
 * from the updated row, so that it runs when that row is locked: it then also sees the session of a sign-in with the old
 * password that committed just before.
 */
export const endAccess = (id: SQL, kept: SQL = sql`null`): SQL => sql`end_access(${id}, ${kept})`

const selectOwn = query(
  'users.select_password',
  attemptParameter,
  { wait: 'int', password_hash: 'text?' },
  (p) => sql`
    with counted as (${countAttempt(p)})
    select ${waitColumn(p)}, ${columnsOf<'users'>(person).password_hash}
    from (select) one left join users person on person.id = ${p.caller}`,
)

/**
 * Counts an attempt of the caller to prove their identity, and returns the hash of their password; null when the user was
 * deleted. `wait` is the number of seconds until the attempt may be made, 0 for now.
 */
export const selectOwnPassword = async (
  ctx: OpContext<SessionPrincipal>,
  attemptKey: Buffer,
): Promise<{ readonly wait: number; readonly passwordHash: string | null }> => {
  const [row] = await selectOwn(ctx, { attempt_key: attemptKey })
  if (row === undefined) throw new Error('Counting an attempt returned no row')
  return { wait: row.wait, passwordHash: row.password_hash }
}

const change = query(
  'users.update_password',
  { old_hash: 'text', new_hash: 'text', ...attemptParameter },
  { id: 'text' },
  (p) => sql`
    with person as (
      update users set ${assignments<'users'>({ password_hash: p.new_hash })}
      where id = ${p.caller} and password_hash = ${p.old_hash} returning id
    ), cleared as (
      ${clearAttempts(p, person)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'password.changed', { user: sql`id` })} from person`)})
    select ${columnsOf<'users'>(person).id}::text, ${endAccess(sql`id`, p.audit_session)}, ${auditColumn} from person`,
)

/** The hash that the current password was verified against, and the hash of the new password. */
interface PasswordChange {
  readonly oldHash: string
  readonly newHash: string
  readonly attemptKey: Buffer
}

/** Changes the caller's password and ends their other sessions. False when it has changed since it was verified. */
export const updateOwnPassword = async (
  ctx: OpContext<SessionPrincipal>,
  { oldHash, newHash, attemptKey }: PasswordChange,
): Promise<boolean> => {
  const rows = await change(ctx, { old_hash: oldHash, new_hash: newHash, attempt_key: attemptKey })
  return rows.length > 0
}

/** Seconds for which a token to reset a password is valid. */
export const resetTokenLifetime = 1_800

const resetToken = (hash: SQL) =>
  newOneTimeToken({
    purpose: 'reset_password',
    hash,
    user: columnsOf<'users'>(person).id,
    lifetime: sql.raw(`interval '${resetTokenLifetime} seconds'`),
  })

const maxMailsPerHour = sql.raw('3')

const requestReset = query(
  'one_time_tokens.insert_reset',
  { email: 'text', token_hash: 'bytes' },
  { is_stored: 'bool' },
  (p) => {
    const { columns, values } = resetToken(p.token_hash)
    return sql`
      with person as (
        select id from users where email = ${p.email} for no key update
      ), stored as (
        insert into one_time_tokens (${columns}) select ${values} from person
        where count_tokens(id, 'reset_password', interval '1 hour') < ${maxMailsPerHour}
        returning user_id
      ), audit as (${audit(p, auditEvent(p, 'password.reset_requested', { user: sql`(select id from person)` }))})
      select exists (select from stored) as is_stored, ${auditColumn}`
  },
)

/**
 * Stores a token to reset the password of the account with this address. False when there is no such account, or when its hourly
 * limit of emails is reached. Writes a row in each case, so that the response time reveals nothing.
 */
export const insertResetToken = async (
  ctx: OpContext,
  { email, tokenHash }: { readonly email: string; readonly tokenHash: Buffer },
): Promise<boolean> => {
  const [row] = await requestReset(ctx, { email, token_hash: tokenHash })
  return row?.is_stored ?? false
}

const insertResetOf = query(
  'one_time_tokens.insert_reset_of_user',
  { user_id: 'uuid', token_hash: 'bytes' },
  { user_id: 'text' },
  (p) => {
    const { columns, values } = resetToken(p.token_hash)
    return sql`
      insert into one_time_tokens (${columns}) select ${values} from users person where person.id = ${p.user_id}
      returning user_id::text`
  },
)

/** Stores a token to reset the password of a user. False when there is no such user. */
export const insertResetTokenOf = async (
  ctx: OpContext,
  { userId, tokenHash }: { readonly userId: string; readonly tokenHash: Buffer },
): Promise<boolean> => {
  const rows = await insertResetOf(ctx, { user_id: userId, token_hash: tokenHash })
  return rows.length > 0
}

const reset = query(
  'users.reset_password',
  { token_hash: 'bytes', new_hash: 'text' },
  { user_id: 'text' },
  (p) => sql`
    with token as (
      delete from one_time_tokens where ${isOneTimeToken(sql`one_time_tokens`, 'reset_password', p.token_hash)}
      returning user_id
    ), person as (
      update users set ${assignments<'users'>({ password_hash: p.new_hash })} from token
      where users.id = token.user_id returning users.id
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'password.reset', { user: sql`id`, actor: sql`id` })} from person`,
    )})
    select ${columnsOf<'users'>(person).id}::text as user_id, ${endAccess(sql`id`)}, ${auditColumn} from person`,
)

/** Uses a token to set a password, and ends all sessions of its user. Returns the user's id; null for an invalid token. */
export const resetPasswordByToken = async (
  ctx: OpContext,
  { tokenHash, newHash }: { readonly tokenHash: Buffer; readonly newHash: string },
): Promise<string | null> => {
  const [row] = await reset(ctx, { token_hash: tokenHash, new_hash: newHash })
  return row?.user_id ?? null
}

const set = query(
  'users.set_password',
  { id: 'uuid', new_hash: 'text', resets_second_factor: 'bool', factor_audit_id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select * from users person where id = ${p.id} and ${allowsUser('user.see', p, person)} for no key update
    ), checked as (
      select id, ${checkedOutcome(p, {
        allowed: allowsUser('user.set_password', p, sql`target`),
        etag: null,
        exists: sql`true`,
        authenticated: isRecentlyAuthenticated(p),
      })} as outcome
      from target
    ), person as (
      update users set ${assignments<'users'>({ password_hash: p.new_hash })} from checked
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

/** A user's new password. */
interface NewPassword {
  readonly userId: string
  readonly newHash: string
  /** Whether their second factor is deleted too. */
  readonly resetsSecondFactor: boolean
}

/** Sets another user's password and ends their sessions. */
export const setPassword = async (
  ctx: OpContext<Principal>,
  { userId, newHash, resetsSecondFactor }: NewPassword,
): Promise<Outcome<unknown>> => {
  const [row] = await set(ctx, {
    id: userId,
    new_hash: newHash,
    resets_second_factor: resetsSecondFactor,
    factor_audit_id: newId(),
  })
  return readOutcome(row)
}
