import { attemptParameter, clearAttempts, countAttempt, waitColumn } from './attempts.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import { type OpContext, transaction } from './engine/context.ts'
import { newId } from './engine/ids.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { join, lockInvitation } from './invitations.ts'
import { newOneTimeToken } from './one-time-tokens.ts'
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
import { insertInstallation, type NewUser } from './users.ts'

/** Registration, and sign-in with a password. */

const person = sql.raw('person')

const hasSecondFactor = (user: SQL): SQL => sql`
  exists (select from second_factors where user_id = ${user}.id and confirmed_at is not null)`

const register = query(
  'users.register',
  {
    id: 'uuid',
    username: 'text',
    email: 'text',
    display_name: 'text',
    time_zone: 'text',
    password_hash: 'text',
    is_open: 'bool',
    ...sessionParameters,
  },
  startedColumns,
  (p) => {
    const user = insertion<'users'>({
      id: p.id,
      username: p.username,
      email: p.email,
      display_name: p.display_name,
      time_zone: p.time_zone,
      password_hash: p.password_hash,
      role: sql`case when exists (select from first) then 'admin' else 'member' end`,
    })
    return sql`
      with first as (
        ${insertInstallation}
      ), person as (
        insert into users (${user.columns}) select ${user.values} where ${p.is_open} or exists (select from first)
        returning *
      ), ${startSession(p, 'user.registered')}`
  },
)

// Who registers has joined the project themselves.
const actAs = query(
  'users.act_as',
  { id: 'uuid' },
  {},
  (p) => sql`select set_config('taskwright.actor', ${p.id}::text, true) as actor`,
)

/** A registration: the account, whether registration is open, and the hash of the first refresh token. */
interface Registration {
  readonly account: NewUser
  readonly isOpen: boolean
  readonly tokenHash: Buffer
  /** The hash of the token of an invitation, which the account accepts; null without one. */
  readonly invitationHash: Buffer | null
}

/**
 * Creates an account and its first session. The first account becomes an administrator; of concurrent first registrations, exactly
 * one does. Null when registration is closed and this is not the first account, or when there is no such invitation.
 */
export const insertRegistration = async (
  ctx: OpContext,
  { account, isOpen, tokenHash, invitationHash }: Registration,
): Promise<StartedSession | null> => {
  const id = newId()
  return transaction(ctx, async (tx) => {
    const invitation = invitationHash === null ? null : await lockInvitation(tx, invitationHash)
    if (invitationHash !== null && invitation === null) return null
    const [row] = await register(tx, {
      id,
      username: account.username,
      email: account.email,
      display_name: account.displayName,
      time_zone: account.timeZone,
      password_hash: account.passwordHash,
      is_open: isOpen,
      ...sessionValues(tokenHash),
    })
    if (row !== undefined && invitation !== null)
      await Promise.all([actAs(tx, { id }), join(tx, id, invitation)])
    return readStarted(row)
  })
}

const hasInstallation = query(
  'installation.exists',
  {},
  { exists: 'bool' },
  () => sql`select exists (select from installation)`,
)

/** Whether anybody has ever registered. */
export const hasAccounts = async (ctx: OpContext): Promise<boolean> => {
  const [row] = await hasInstallation(ctx, {})
  return row?.exists ?? true
}

const beginSignIn = query(
  'users.select_credentials',
  { email: 'text', ...attemptParameter },
  {
    wait: 'int',
    user_id: 'text?',
    password_hash: 'text?',
    is_disabled: 'bool',
    has_second_factor: 'bool',
  },
  (p) => {
    const { id, password_hash, is_disabled } = columnsOf<'users'>(person)
    return sql`
      with counted as (${countAttempt(p)})
      select ${waitColumn(p)}, ${id}::text as user_id, ${password_hash}, coalesce(${is_disabled}, false) as is_disabled, ${hasSecondFactor(person)} as has_second_factor
      from (select) one left join users person on person.email = ${p.email}`
  },
)

/** The stored credentials for a sign-in. */
export interface SignInCredentials {
  readonly userId: string
  readonly passwordHash: string
  readonly isDisabled: boolean
  readonly hasSecondFactor: boolean
}

/**
 * Counts an attempt to sign in and finds the account with this address, in canonical form. `wait` is the number of seconds
 * until the attempt may be made, 0 for now. The statement is the same for known and unknown addresses.
 */
export const selectCredentials = async (
  ctx: OpContext,
  { email, attemptKey }: { readonly email: string; readonly attemptKey: Buffer },
): Promise<{ readonly wait: number; readonly credentials: SignInCredentials | null }> => {
  const [row] = await beginSignIn(ctx, { email, attempt_key: attemptKey })
  if (row === undefined) throw new Error('Counting an attempt returned no row')
  const { wait, user_id: userId, password_hash: passwordHash } = row
  if (userId === null || passwordHash === null) return { wait, credentials: null }
  const { is_disabled: isDisabled, has_second_factor: hasSecondFactor } = row
  return { wait, credentials: { userId, passwordHash, isDisabled, hasSecondFactor } }
}

/** A sign-in with a correct password. */
export interface VerifiedPassword {
  readonly userId: string
  /** The hash that the password was verified against. */
  readonly oldHash: string
  /** The hash to store. */
  readonly newHash: string
  /** The key of the counter of attempts. */
  readonly attemptKey: Buffer
}

const verifiedParameters = {
  user_id: 'uuid',
  old_hash: 'text',
  new_hash: 'text',
  ...attemptParameter,
} as const

const verifiedValues = ({ userId, oldHash, newHash, attemptKey }: VerifiedPassword) => ({
  user_id: userId,
  old_hash: oldHash,
  new_hash: newHash,
  attempt_key: attemptKey,
})

/** Parts of a statement: `person` is the user, if they are not disabled and the verified password has not changed. */
const verifiedPerson = (p: Placeholders<typeof verifiedParameters>, condition: SQL): SQL => sql`
  person as (
    update users set ${assignments<'users'>({ password_hash: p.new_hash })}
    where id = ${p.user_id} and password_hash = ${p.old_hash} and not is_disabled and ${condition} returning *
  ), cleared as (
    ${clearAttempts(p, person)}
  )`

const signIn = query(
  'sessions.insert',
  { ...verifiedParameters, ...sessionParameters },
  startedColumns,
  (p) => sql`with ${verifiedPerson(p, sql`not ${hasSecondFactor(sql`users`)}`)}, ${startSession(p)}`,
)

/** A sign-in with a correct password, and the hash of the token that it receives. */
interface TokenForPassword {
  readonly verified: VerifiedPassword
  readonly tokenHash: Buffer
}

/** Starts a session. Null when the user, the password or the second factor has changed since they were checked. */
export const insertSession = async (
  ctx: OpContext,
  { verified, tokenHash }: TokenForPassword,
): Promise<StartedSession | null> => {
  const [row] = await signIn(ctx, { ...verifiedValues(verified), ...sessionValues(tokenHash) })
  return readStarted(row)
}

/** Lifetime of a challenge in seconds. */
export const challengeLifetime = 300

const challenge = query(
  'one_time_tokens.insert_challenge',
  { ...verifiedParameters, token_hash: 'bytes' },
  { user_id: 'text' },
  (p) => {
    const { id } = columnsOf<'users'>(person)
    const { columns, values } = newOneTimeToken({
      purpose: 'sign_in',
      hash: p.token_hash,
      user: id,
      lifetime: sql.raw(`interval '${challengeLifetime} seconds'`),
    })
    return sql`
      with ${verifiedPerson(p, hasSecondFactor(sql`users`))}, challenge as (
        insert into one_time_tokens (${columns}) select ${values} from person
      ), audit as (${audit(p, sql`${auditEvent(p, 'sign_in.challenged', { user: sql`id` })} from person`)})
      select ${id}::text as user_id, ${auditColumn} from person`
  },
)

/** Stores the challenge of a sign-in whose second factor is pending. False when something has changed since the check. */
export const insertChallenge = async (
  ctx: OpContext,
  { verified, tokenHash }: TokenForPassword,
): Promise<boolean> => {
  const rows = await challenge(ctx, { ...verifiedValues(verified), token_hash: tokenHash })
  return rows.length > 0
}
