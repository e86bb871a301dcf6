import type { Client } from '../domain/audit.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal, Role, SessionPrincipal } from '../domain/permissions.ts'
import { attemptParameter, clearAttempts, countAttempt, waitColumn } from './attempts.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { WritesRefused } from './engine/errors.ts'
import { newId } from './engine/ids.ts'
import { sessionJson, userJson } from './read-models.ts'
import {
  conditionsOf,
  createdAt,
  filterFlag,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { allowsOwn, callerOf, callerParameters } from './access/permissions.ts'
import { onlyRow, parameter, type Placeholders, type Row, statement } from './engine/statement.ts'
import type { NewUser } from './users.ts'

/** A session that has just been started or refreshed. */
export interface StartedSession {
  readonly sessionId: string
  readonly userId: string
  /** The session's user, as they see themselves. */
  readonly userJson: string
  /** Seconds until the refresh token expires unless it is used. */
  readonly refreshExpiresIn: number
  /** When its current tokens were issued, in milliseconds since the epoch. */
  readonly issuedAt: number
}

/** A refresh token that is not used for this long has expired. */
const idleLifetime = sql.raw(`interval '7 days'`)

/** For how long a spent refresh token is answered with its successor again. */
const reuseGrace = sql.raw(`interval '30 seconds'`)

/** A session ends after this long, however often it is refreshed. */
const longestLifetime = sql.raw(`interval '30 days'`)

/** When something was used is put down to the minute, so that using it is not one write after another. */
export const lastUsedPrecision = sql.raw(`interval '1 minute'`)

/** Reads the role of a user as it is stored. */
export const parseRole = (text: string): Role => (text === 'admin' ? 'admin' : 'member')

const person = sql.raw('person')

/**
 * Parameters of a statement that starts a session. `issued_at` comes from the clock that access tokens are verified by, not
 * from the database's.
 */
export const sessionParameters = {
  session_id: 'uuid',
  token_hash: 'bytes',
  issued_at: 'instant',
  ...auditParameters,
} as const

/** The columns of a statement that starts a session. */
export const sessionColumns = {
  session_id: 'text',
  user_id: 'text',
  user_json: 'text',
  expires_in: 'int',
  issued_at: 'int8',
  ...auditColumns,
} as const

/** Values for `sessionParameters`, for a session that nobody has yet. */
export const sessionValues = (client: Client, tokenHash: Buffer) => ({
  session_id: newId(),
  token_hash: tokenHash,
  issued_at: new Date().toISOString(),
  ...auditValues(client, null),
})

/** Parts of a statement that start a session for the row `person`. */
const startSession = (p: Placeholders<typeof sessionParameters>): SQL => sql`
  session as (
    insert into sessions (id, user_id, expires_at, user_agent, address)
    select ${p.session_id}, id, now() + ${longestLifetime}, ${p.audit_user_agent}, ${p.audit_address}
    from person returning *
  ), token as (
    insert into refresh_tokens (hash, session_id, created_at, expires_at)
    select ${p.token_hash}, id, ${p.issued_at}, now() + ${idleLifetime} from session returning *
  )`

/** The event of a session that has started. */
const signedIn = (p: Placeholders<typeof auditParameters>): SQL =>
  sql`${auditEvent(p, 'sign_in.succeeded', { user: sql`user_id`, actor: sql`user_id`, session: sql`id` })} from session`

/** What a statement with `person`, `session` and `token` answers with. Times are kept to the millisecond. */
const startedSession = sql`
  session.id::text as session_id, person.id::text as user_id,
  ${userJson(person, { caller: sql`person.id`, is_admin: sql`false`, in_session: sql`true` })} as user_json,
  floor(extract(epoch from token.expires_at - now()::timestamptz(3)))::int as expires_in,
  (extract(epoch from token.created_at) * 1000)::bigint as issued_at`

const started = sql`person, session, token`

/** The end of a statement with `person` that starts a session and puts it down. */
export const startAuditedSession = (p: Placeholders<typeof sessionParameters>): SQL => sql`
  ${startSession(p)}, audit as (${audit(p, signedIn(p))})
  select ${startedSession}, ${auditColumn} from ${started}`

export const readStarted = (row: Row<typeof sessionColumns> | null): StartedSession | null =>
  row && {
    sessionId: row.session_id,
    userId: row.user_id,
    userJson: row.user_json,
    refreshExpiresIn: row.expires_in,
    issuedAt: row.issued_at,
  }

const register = statement(
  {
    id: 'uuid',
    username: 'text',
    email: 'text',
    display_name: 'text',
    password_hash: 'text',
    is_open: 'bool',
    ...sessionParameters,
  },
  sessionColumns,
  (p) => sql`
    with first as (
      insert into installation (singleton) values (true) on conflict do nothing returning singleton
    ), person as (
      insert into users (id, username, email, display_name, password_hash, role)
      select ${p.id}, ${p.username}, ${p.email}, ${p.display_name}, ${p.password_hash},
        case when exists (select from first) then 'admin' else 'member' end
      where ${p.is_open} or exists (select from first)
      returning *
    ), ${startSession(p)}, audit as (${audit(
      p,
      sql`${auditEvent(p, 'user.registered', { user: sql`user_id`, actor: sql`user_id`, session: sql`id` })} from session`,
    )})
    select ${startedSession}, ${auditColumn} from ${started}`,
)

/**
 * Creates an account and its first session. The first account ever becomes an administrator, exactly one also when
 * several race; for the others registration must be open, else null.
 */
export const insertRegistration = async (
  db: Database,
  { username, email, displayName, passwordHash }: NewUser,
  isOpen: boolean,
  client: Client,
  tokenHash: Buffer,
): Promise<StartedSession | null> => {
  const account = { id: newId(), username, email, display_name: displayName, password_hash: passwordHash }
  const values = { ...account, ...sessionValues(client, tokenHash), is_open: isOpen }
  return readStarted(onlyRow(await register(db, values)))
}

const isRegistrationPossible = statement(
  {},
  { possible: 'bool' },
  () => sql`select not exists (select from installation) as possible`,
)

/** Whether nobody has registered yet. */
export const selectIsEmpty = async (db: Database): Promise<boolean> =>
  onlyRow(await isRegistrationPossible(db, {}))?.possible ?? false

const beginSignIn = statement(
  { email: 'text', ...attemptParameter },
  { wait: 'int', user_id: 'text?', password_hash: 'text?', has_second_factor: 'bool' },
  (p) => sql`
    with counted as (${countAttempt(p)})
    select ${waitColumn(p)}, person.id::text as user_id, person.password_hash,
      exists (select from second_factors where user_id = person.id and confirmed_at is not null) as has_second_factor
    from (select) one left join users person on person.email = ${p.email}`,
)

/** What a sign-in is checked against. */
export interface Credentials {
  readonly userId: string
  readonly passwordHash: string
  readonly hasSecondFactor: boolean
}

/**
 * Counts an attempt to sign in and looks up the account with this address, in canonical form. `wait` is the number of
 * seconds until there may be an attempt, 0 for now. Known or unknown, an address takes the same statement.
 */
export const selectCredentials = async (
  db: Database,
  email: string,
  attemptKey: Buffer,
): Promise<{ readonly wait: number; readonly credentials: Credentials | null }> => {
  const row = onlyRow(await beginSignIn(db, { email, attempt_key: attemptKey }))
  if (row === null) throw new Error('Counting answers with a row')
  const { wait, user_id: userId, password_hash: passwordHash, has_second_factor: hasSecondFactor } = row
  if (userId === null || passwordHash === null) return { wait, credentials: null }
  return { wait, credentials: { userId, passwordHash, hasSecondFactor } }
}

/** A password that was right: whose, the hash that it was verified against, and the one to keep. */
export interface VerifiedPassword {
  readonly userId: string
  readonly oldHash: string
  readonly newHash: string
  /** Whom its attempts are counted for. */
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

/** Parts of a statement that select the row `person`, if the password is still the one that was verified. */
const verifiedPerson = (p: Placeholders<typeof verifiedParameters>, condition: SQL): SQL => sql`
  person as (
    update users set password_hash = ${p.new_hash}
    where id = ${p.user_id} and password_hash = ${p.old_hash} and ${condition} returning *
  ), cleared as (
    ${clearAttempts(p, person)}
  )`

const needsSecondFactor = sql`
  exists (select from second_factors where user_id = users.id and confirmed_at is not null)`

const signIn = statement(
  { ...verifiedParameters, ...sessionParameters },
  sessionColumns,
  (p) => sql`with ${verifiedPerson(p, sql`not ${needsSecondFactor}`)}, ${startAuditedSession(p)}`,
)

/** Starts a session. Null when the user, the password or the second factor has changed meanwhile. */
export const insertSession = async (
  db: Database,
  verified: VerifiedPassword,
  client: Client,
  tokenHash: Buffer,
): Promise<StartedSession | null> =>
  readStarted(onlyRow(await signIn(db, { ...verifiedValues(verified), ...sessionValues(client, tokenHash) })))

/** Seconds for which a challenge can be answered. */
export const challengeLifetime = 300

const challenge = statement(
  { ...verifiedParameters, token_hash: 'bytes', ...auditParameters },
  { user_id: 'text', ...auditColumns },
  (p) => sql`
    with ${verifiedPerson(p, needsSecondFactor)}, challenge as (
      insert into one_time_tokens (hash, purpose, user_id, expires_at)
      select ${p.token_hash}, 'sign_in', id, now() + ${sql.raw(`interval '${challengeLifetime} seconds'`)} from person
    ), audit as (${audit(p, sql`${auditEvent(p, 'sign_in.challenged', { user: sql`id` })} from person`)})
    select id::text as user_id, ${auditColumn} from person`,
)

/** Stores the challenge of a sign-in that lacks its second factor. False when something has changed meanwhile. */
export const insertChallenge = async (
  db: Database,
  verified: VerifiedPassword,
  client: Client,
  tokenHash: Buffer,
): Promise<boolean> => {
  const values = { ...verifiedValues(verified), token_hash: tokenHash, ...auditValues(client, null) }
  return onlyRow(await challenge(db, values)) !== null
}

const rotate = statement(
  { shown_hash: 'bytes', next_hash: 'bytes', issued_at: 'instant', ...auditParameters },
  sessionColumns,
  (p) => sql`
    with spent as (
      update refresh_tokens token set spent_at = now() from sessions
      where token.hash = ${p.shown_hash} and token.spent_at is null and token.expires_at > now()
        and sessions.id = token.session_id and sessions.expires_at > now()
      returning sessions.id
    ), session as (
      update sessions set last_used_at = now(), user_agent = ${p.audit_user_agent}, address = ${p.audit_address}
      from spent where sessions.id = spent.id returning sessions.*
    ), token as (
      insert into refresh_tokens (hash, session_id, created_at, expires_at)
      select ${p.next_hash}, id, ${p.issued_at}, least(now() + ${idleLifetime}, expires_at) from session returning *
    ), person as (
      select users.* from users join session on users.id = session.user_id
    )
    select ${startedSession}, null as audit from ${started}`,
)

const repeat = statement(
  { shown_hash: 'bytes', next_hashes: 'text[]' },
  { ...sessionColumns, next_hash: 'bytes' },
  (p) => sql`
    with token as (
      select next.* from refresh_tokens shown join refresh_tokens next using (session_id)
      where shown.hash = ${p.shown_hash} and shown.spent_at > now() - ${reuseGrace}
        and next.hash in (select decode(hash, 'hex') from unnest(${p.next_hashes}) hash)
        and next.spent_at is null and next.expires_at > now()
    ), session as (
      select sessions.* from sessions join token on sessions.id = token.session_id where sessions.expires_at > now()
    ), person as (
      select users.* from users join session on users.id = session.user_id
    )
    select ${startedSession}, token.hash as next_hash, null as audit from ${started}`,
)

const endReused = statement(
  { shown_hash: 'bytes', ...auditParameters },
  { session_id: 'text', ...auditColumns },
  (p) => sql`
    with ended as (
      delete from sessions using refresh_tokens shown
      where shown.hash = ${p.shown_hash} and sessions.id = shown.session_id
      returning sessions.id, sessions.user_id, shown.expires_at > now() and sessions.expires_at > now() as reused
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'session.token_reused', { user: sql`user_id`, session: sql`id` })} from ended where reused`,
    )})
    select id::text as session_id, ${auditColumn} from ended`,
)

/** The session of a refreshed pair of tokens, and the hash of its refresh token. */
export interface RefreshedSession extends StartedSession {
  readonly tokenHash: Buffer
}

/**
 * Spends a refresh token and stores its successor. Null when the token is not a live one.
 *
 * A token that was spent a moment ago and whose successor is unused gets that successor again: two tabs may refresh at
 * once, and an answer may be lost. `nextHashes` are the hashes of its successor under each key, the active one first.
 */
export const rotateRefreshToken = async (
  db: Database,
  shownHash: Buffer,
  nextHashes: readonly Buffer[],
  client: Client,
): Promise<RefreshedSession | null> => {
  const [nextHash] = nextHashes
  if (nextHash === undefined) throw new Error('There is a key for the next refresh token')
  const next = { next_hash: nextHash, issued_at: new Date().toISOString() }
  const rotated = await rotate(db, { shown_hash: shownHash, ...next, ...auditValues(client, null) })
  const started = readStarted(onlyRow(rotated))
  if (started !== null) return { ...started, tokenHash: nextHash }
  // A statement of its own sees what another request committed while the first one waited for it.
  const hashes = nextHashes.map((hash) => hash.toString('hex'))
  const row = onlyRow(await repeat(db, { shown_hash: shownHash, next_hashes: hashes }))
  const repeated = readStarted(row)
  return row && repeated && { ...repeated, tokenHash: row.next_hash }
}

/** Ends the session of a refresh token that is spent or expired. Returns the session's id, if there was one. */
export const endReusedSession = async (
  db: Database,
  shownHash: Buffer,
  client: Client,
): Promise<string | null> =>
  onlyRow(await endReused(db, { shown_hash: shownHash, ...auditValues(client, null) }))?.session_id ?? null

/** What is read by `use`, which notes that it was used; while the database takes no writes, by `read`, which does not. */
export const notingUse = async <T>(use: () => Promise<T>, read: () => Promise<T>): Promise<T> => {
  try {
    return await use()
  } catch (error) {
    if (error instanceof WritesRefused) return read()
    throw error
  }
}

const liveParameters = { session_id: 'uuid', user_id: 'uuid' } as const
const liveColumns = { role: 'text' } as const

const selectLive = (p: Placeholders<typeof liveParameters>): SQL => sql`
  select users.role from sessions join users on users.id = sessions.user_id
  where sessions.id = ${p.session_id} and sessions.user_id = ${p.user_id} and sessions.expires_at > now()
    and users.deleted_at is null`

const live = statement(liveParameters, liveColumns, selectLive)

const useLive = statement(
  liveParameters,
  liveColumns,
  (p) => sql`
    with used as (
      update sessions set last_used_at = now()
      where id = ${p.session_id} and user_id = ${p.user_id} and expires_at > now()
        and last_used_at < now() - ${lastUsedPrecision}
    )
    ${selectLive(p)}`,
)

/** The role of the user of a live session, which this uses; null when it has ended or is another user's. */
export const selectSessionRole = async (
  db: Database,
  sessionId: string,
  userId: string,
): Promise<Role | null> => {
  const values = { session_id: sessionId, user_id: userId }
  const rows = await notingUse(
    () => useLive(db, values),
    () => live(db, values),
  )
  const row = onlyRow(rows)
  return row && parseRole(row.role)
}

const session = sql.raw('session')

const flags = {
  live: filterFlag(sql`item.expires_at > now() and exists (
    select from refresh_tokens token
    where token.session_id = item.id and token.spent_at is null and token.expires_at > now())`),
}

/** A page of the principal's own sessions. */
export const selectSessions = (db: Database, principal: SessionPrincipal, page: PageRequest): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'sessions',
      from: sql`sessions item`,
      seenBecause: (caller) => [allowsOwn('session.see', caller, sql`item`)],
      conditions: conditionsOf(flags, { live: true }),
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => sessionJson(row, parameter('session_id', 'uuid')),
      values: { session_id: principal.credential.sessionId },
    },
    principal,
    page,
  )

const end = statement(
  { session_id: 'uuid', ...callerParameters, ...auditParameters },
  { id: 'text', ...auditColumns },
  (p) => sql`
    with session as (
      delete from sessions session
      where id = ${p.session_id} and ${allowsOwn('session.end_other', p, session)} and expires_at > now() returning *
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'session.ended', { user: sql`user_id`, session: sql`id` })} from session`,
    )})
    select id::text, ${auditColumn} from session`,
)

/** Ends a session of the principal, with its refresh tokens. */
export const deleteSession = async (
  db: Database,
  principal: Principal,
  client: Client,
  sessionId: string,
): Promise<Outcome<unknown>> => {
  const values = { session_id: sessionId, ...callerOf(principal), ...auditValues(client, principal) }
  return found(onlyRow(await end(db, values)))
}

const endAll = statement(
  { ...callerParameters, ...auditParameters },
  auditColumns,
  (p) => sql`
    with session as (
      delete from sessions session where ${allowsOwn('session.end_other', p, session)}
    ), audit as (${audit(p, auditEvent(p, 'session.all_ended', { user: p.caller }))})
    select ${auditColumn}`,
)

/** Ends every session of the principal. */
export const deleteSessions = async (db: Database, principal: Principal, client: Client): Promise<void> => {
  await endAll(db, { ...callerOf(principal), ...auditValues(client, principal) })
}

/** Each with its refresh tokens. */
const removeEndedSessions = deletionInBatches({}, 'sessions', () => sql`expires_at <= now()`, 100)

const removeSpentTokens = deletionInBatches(
  {},
  'refresh_tokens',
  () => sql`expires_at <= now() and spent_at is not null`,
)

/** Removes sessions that are over, and spent tokens whose reuse would no longer tell anything. */
export const removeExpiredSessions = async (db: Database): Promise<void> => {
  await removeEndedSessions(db, {})
  await removeSpentTokens(db, {})
}

/** Removes one-time tokens that are no good any more; those for passwords count against the mails of an hour. */
export const removeExpiredOneTimeTokens = deletionInBatches(
  {},
  'one_time_tokens',
  () => sql`expires_at <= now() - interval '1 hour'`,
)
