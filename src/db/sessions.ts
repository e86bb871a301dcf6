import { type SQL, sql } from 'drizzle-orm'
import type { Role } from '../domain/permissions.ts'
import type { Database } from './client.ts'
import { newId } from './ids.ts'
import { userJson } from './json.ts'
import { onlyRow, type Placeholders, statement } from './statement.ts'
import type { NewUser } from './users.ts'

/** A session that has just been started or refreshed. */
export interface StartedSession {
  readonly sessionId: string
  readonly userId: string
  /** The session's user, as they see themselves. */
  readonly userJson: string
  /** Seconds until the refresh token expires unless it is used. */
  readonly refreshExpiresIn: number
}

/** A refresh token that is not used for this long has expired. */
const idleLifetime = sql.raw(`interval '7 days'`)

/** A session ends after this long, however often it is refreshed. */
const longestLifetime = sql.raw(`interval '30 days'`)

const person = sql.raw('person')

const sessionParameters = { session_id: 'uuid', token_hash: 'bytes' } as const
const sessionColumns = { session_id: 'text', user_id: 'text', user_json: 'text', expires_in: 'int' } as const

/** Parts of a statement that start a session for the row `person`. */
const startSession = (p: Placeholders<typeof sessionParameters>): SQL => sql`
  session as (
    insert into sessions (id, user_id, expires_at)
    select ${p.session_id}, id, now() + ${longestLifetime} from person returning *
  ), token as (
    insert into refresh_tokens (hash, session_id, expires_at)
    select ${p.token_hash}, id, now() + ${idleLifetime} from session returning *
  )`

/** What a statement with `person`, `session` and `token` answers with. Times are kept to the millisecond. */
const startedSession = sql`
  session.id::text as session_id, person.id::text as user_id,
  ${userJson(person, { caller: sql`person.id`, is_admin: sql`false` })} as user_json,
  floor(extract(epoch from token.expires_at - now()::timestamptz(3)))::int as expires_in
  from person, session, token`

const readStarted = (
  row: { session_id: string; user_id: string; user_json: string; expires_in: number } | null,
): StartedSession | null =>
  row && {
    sessionId: row.session_id,
    userId: row.user_id,
    userJson: row.user_json,
    refreshExpiresIn: row.expires_in,
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
    ), ${startSession(p)}
    select ${startedSession}`,
)

/**
 * Creates an account and its first session. The first account ever becomes an administrator, exactly one also when
 * several race; for the others registration must be open, else null.
 */
export const insertRegistration = async (
  db: Database,
  { username, email, displayName, passwordHash }: NewUser,
  isOpen: boolean,
  tokenHash: Buffer,
): Promise<StartedSession | null> => {
  const account = { id: newId(), username, email, display_name: displayName, password_hash: passwordHash }
  const session = { session_id: newId(), token_hash: tokenHash }
  return readStarted(onlyRow(await register(db, { ...account, ...session, is_open: isOpen })))
}

const isRegistrationPossible = statement(
  {},
  { possible: 'bool' },
  () => sql`select not exists (select from installation) as possible`,
)

/** Whether nobody has registered yet. */
export const selectIsEmpty = async (db: Database): Promise<boolean> =>
  onlyRow(await isRegistrationPossible(db, {}))?.possible ?? false

const credentials = statement(
  { email: 'text' },
  { id: 'text', password_hash: 'text' },
  (p) => sql`select id::text, password_hash from users where email = ${p.email}`,
)

/** The id and password hash of the user with this address, in canonical form. */
export const selectCredentials = async (
  db: Database,
  email: string,
): Promise<{ readonly id: string; readonly password_hash: string } | null> =>
  onlyRow(await credentials(db, { email }))

const signIn = statement(
  { user_id: 'uuid', old_hash: 'text', new_hash: 'text', ...sessionParameters },
  sessionColumns,
  (p) => sql`
    with person as (
      update users set password_hash = ${p.new_hash}
      where id = ${p.user_id} and password_hash = ${p.old_hash} returning *
    ), ${startSession(p)}
    select ${startedSession}`,
)

/**
 * Starts a session for a user whose password was verified against `oldHash`; `newHash` replaces it when it was made
 * with other parameters. Null when the user or the password has changed meanwhile.
 */
export const insertSession = async (
  db: Database,
  userId: string,
  { oldHash, newHash }: { readonly oldHash: string; readonly newHash: string },
  tokenHash: Buffer,
): Promise<StartedSession | null> => {
  const values = { user_id: userId, old_hash: oldHash, new_hash: newHash }
  return readStarted(onlyRow(await signIn(db, { ...values, session_id: newId(), token_hash: tokenHash })))
}

const rotate = statement(
  { old_hash: 'bytes', new_hash: 'bytes' },
  {
    ended_session_id: 'text?',
    session_id: 'text?',
    user_id: 'text?',
    user_json: 'text?',
    expires_in: 'int?',
  },
  (p) => sql`
    with spent as (
      update refresh_tokens token set spent_at = now() from sessions
      where token.hash = ${p.old_hash} and token.spent_at is null and token.expires_at > now()
        and sessions.id = token.session_id and sessions.expires_at > now()
      returning sessions.id
    ), session as (
      update sessions set last_used_at = now() from spent where sessions.id = spent.id returning sessions.*
    ), token as (
      insert into refresh_tokens (hash, session_id, expires_at)
      select ${p.new_hash}, id, least(now() + ${idleLifetime}, expires_at) from session returning *
    ), ended as (
      delete from sessions using refresh_tokens shown
      where shown.hash = ${p.old_hash} and sessions.id = shown.session_id and not exists (select from spent)
      returning sessions.id
    ), person as (
      select users.* from users join session on users.id = session.user_id
    ), started as (
      select ${startedSession}
    )
    select ended.id::text as ended_session_id, started.session_id, started.user_id, started.user_json, started.expires_in
    from (select) one left join ended on true left join started on true`,
)

/** What showing a refresh token led to: it was swapped, or it was no good, and then its session (if any) has ended. */
export type Rotation =
  | { readonly started: StartedSession; readonly endedSessionId: null }
  | { readonly started: null; readonly endedSessionId: string | null }

/**
 * Spends a refresh token and stores its successor. A token works once: a spent or expired one ends its session,
 * whichever of several that race with it comes second included.
 */
export const rotateRefreshToken = async (
  db: Database,
  oldHash: Buffer,
  newHash: Buffer,
): Promise<Rotation> => {
  const row = onlyRow(await rotate(db, { old_hash: oldHash, new_hash: newHash }))
  if (row?.session_id == null || row.user_id === null || row.user_json === null || row.expires_in === null) {
    return { started: null, endedSessionId: row?.ended_session_id ?? null }
  }
  const { session_id, user_id, user_json, expires_in } = row
  return {
    started: readStarted({ session_id, user_id, user_json, expires_in }) as StartedSession,
    endedSessionId: null,
  }
}

const live = statement(
  { session_id: 'uuid', user_id: 'uuid' },
  { role: 'text' },
  (p) => sql`
    select users.role from sessions join users on users.id = sessions.user_id
    where sessions.id = ${p.session_id} and sessions.user_id = ${p.user_id} and sessions.expires_at > now()`,
)

/** The role of the user of a live session; null when the session has ended or is another user's. */
export const selectSessionRole = async (
  db: Database,
  sessionId: string,
  userId: string,
): Promise<Role | null> => {
  const row = onlyRow(await live(db, { session_id: sessionId, user_id: userId }))
  return row && (row.role === 'admin' ? 'admin' : 'member')
}

const end = statement({ session_id: 'uuid' }, {}, (p) => sql`delete from sessions where id = ${p.session_id}`)

/** Ends a session with its refresh tokens. */
export const deleteSession = async (db: Database, sessionId: string): Promise<void> => {
  await end(db, { session_id: sessionId })
}

/** Removes sessions that are over, and spent tokens whose reuse would no longer tell anything. */
export const removeExpiredSessions = statement(
  {},
  {},
  () => sql`
    with over as (delete from sessions where expires_at <= now())
    delete from refresh_tokens where expires_at <= now() and spent_at is not null`,
)
