import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  type Principal,
  type Relation,
  relationsToUser,
  type SessionPrincipal,
} from '../../domain/shared/permissions.ts'
import { canonicalTimeZone, defaultTimeZone } from '../../domain/shared/time-zones.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsOwn } from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { WritesRefused } from '../engine/errors.ts'
import { parameter, type Placeholders, type Row } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { rowDeletion, rowLock } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { sessionJson } from '../shared/read-models.ts'
import { retentionTime } from '../shared/retention.ts'
import { aliasedTable, and, eq, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { refreshTokens, sessions, users } from '../schema/tables.ts'

const item = aliasedTable(sessions, 'item')
const session = aliasedTable(sessions, 'session')
const token = aliasedTable(refreshTokens, 'token')
const person = aliasedTable(users, 'person')

/** Lifetime of an unused refresh token. */
export const idleLifetime = sql.raw(`interval '7 days'`)

/** Maximum lifetime of a session, regardless of refreshes. */
export const maxLifetime = sql.raw(`interval '30 days'`)

/** The precision of `last_used_at`: bounds the writes of a credential that is used often. */
const lastUsedPrecision = sql.raw(`interval '1 minute'`)

/** Whether `last_used_at` need not be written again. A time that is ahead is from before the clock was set back. */
export const isUseRecorded = (time: SQLWrapper): SQL =>
  sql`(${time} between now() - ${lastUsedPrecision} and now() + ${lastUsedPrecision})`

const insert = builtStatement(
  'sessions.insert',
  {
    id: 'uuid',
    user_id: 'uuid',
    hours: 'int?',
    authenticated_at: 'int8?',
    user_agent: 'text?',
    address: 'text',
  },
  (db, p) =>
    db.insert(sessions).values({
      id: p.id,
      user_id: p.user_id,
      // Of no argument, `make_interval` is null, and `least` ignores it.
      expires_at: sql`now() + least(${maxLifetime}, make_interval(hours => ${p.hours}))`,
      authenticated_at: sql`least(now(), to_timestamp(${p.authenticated_at}))`,
      user_agent: p.user_agent,
      address: p.address,
    }),
)

interface NewSession {
  readonly id: string
  readonly userId: string
  /** When the session ends, if not after the longest lifetime. */
  readonly hours?: number | null
  /** When the user has authenticated, in seconds since the epoch, if not now. */
  readonly authenticatedAt?: number | null
}

/** Inserts a session of a user. */
export const insertSession = async (
  { db, client }: TransactionContext,
  { id, userId, hours = null, authenticatedAt = null }: NewSession,
): Promise<void> => {
  const { userAgent: user_agent, address } = client
  await insert(db, { id, user_id: userId, hours, authenticated_at: authenticatedAt, user_agent, address })
}

/** Reads with `use`, which also updates `last_used_at`; on a read-only database, with `read`, which does not. */
export const readAndRecordUse = async <T>(use: () => Promise<T>, read: () => Promise<T>): Promise<T> => {
  try {
    return await use()
  } catch (error) {
    if (error instanceof WritesRefused) return read()
    throw error
  }
}

/** The columns of a principal's user. */
export const principalColumns = {
  user_id: 'text',
  role: 'text',
  time_zone: 'text',
  task_quota: 'int?',
} as const

export const selectPrincipal = ({ id, role, time_zone, task_quota }: typeof users): SQL =>
  sql`${id}::text as user_id, ${role}, ${time_zone}, ${task_quota}`

/** Reads a principal. A time zone that this version does not know, because a newer version stored it, counts as UTC. */
export const readPrincipal = (row: Row<typeof principalColumns>): Omit<Principal, 'credential'> => ({
  userId: row.user_id,
  role: row.role === 'admin' ? 'admin' : 'member',
  timeZone: canonicalTimeZone(row.time_zone) ?? defaultTimeZone,
  taskQuota: row.task_quota,
})

const liveParameters = { session_id: 'uuid', user_id: 'uuid' } as const

/** The live sessions, as `session`, with their users, as `person`. Ends with a condition. */
export const fromLiveSessions = sql`
  from sessions session join users person on ${person.id} = ${session.user_id}
  where ${session.expires_at} > now() and ${person.deleted_at} is null and not ${person.is_disabled}`

const selectLive = (p: Placeholders<typeof liveParameters>): SQL => sql`
  select ${selectPrincipal(person)} ${fromLiveSessions}
    and ${session.id} = ${p.session_id} and ${session.user_id} = ${p.user_id}`

const live = statement('sessions.select_live', liveParameters, principalColumns, selectLive)

const useLive = statement(
  'sessions.use',
  liveParameters,
  principalColumns,
  (p) => sql`
    with used as ${builder
      .update(sessions)
      .set({ last_used_at: sql`now()` })
      .where(
        and(
          eq(sessions.id, p.session_id),
          eq(sessions.user_id, p.user_id),
          sql`${sessions.expires_at} > now() and not ${isUseRecorded(sessions.last_used_at)}`,
        ),
      )}
    ${selectLive(p)}`,
)

/** The principal of a live session; null when it has ended or is another user's. Updates `last_used_at`. */
export const selectSessionPrincipal = async (
  db: Database,
  sessionId: string,
  userId: string,
): Promise<SessionPrincipal | null> => {
  const values = { session_id: sessionId, user_id: userId }
  const [row] = await readAndRecordUse(
    () => useLive(db, values),
    () => live(db, values),
  )
  return row === undefined ? null : { ...readPrincipal(row), credential: { kind: 'session', sessionId } }
}

const isLive = sql`${item.expires_at} > now() and exists (
    select from refresh_tokens token
    where ${token.session_id} = ${item.id} and ${token.spent_at} is null and ${token.expires_at} > now())`

/** A page of the caller's own sessions. */
export const selectSessions = (
  { db, principal }: StatementContext<SessionPrincipal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'sessions',
      table: sessions,
      branches: (caller) => onlyBranch(sql`${allowsOwn('session.see', caller, item.user_id)} and ${isLive}`),
      ...newest,
      json: (row) => sessionJson(row, parameter('session_id', 'uuid')),
      values: { session_id: principal.credential.sessionId },
    },
    principal,
    page,
  )

/** What ending a session depends on. */
export interface SessionFacts {
  readonly id: string
  readonly userId: string
  /** What the caller is to its user. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('sessions.lock', sessions, 'update')

const selectFacts = builtStatement('sessions.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({ user_id: sessions.user_id })
    .from(sessions)
    .where(and(eq(sessions.id, p.id), sql`${sessions.expires_at} > now()`)),
)

/** Locks a session, and reads it under the lock, unless it has ended. */
export const lockSession = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<SessionFacts | null> => {
  const { facts } = await pipeline(db, {
    lock: () => lock(db, { id }),
    facts: () => selectFacts(db, { id }),
  })
  const [row] = facts
  if (row === undefined) return null
  return { id, userId: row.user_id, relations: relationsToUser(principal, row.user_id) }
}

const remove = rowDeletion('sessions.delete', sessions)

/** Ends a locked session, with its refresh tokens. */
export const removeSession = async (
  { db }: TransactionContext,
  { id }: Authorized<'session.end_other', SessionFacts>,
): Promise<void> => {
  await remove(db, { id })
}

/** Deletes sessions that have ended, with their refresh tokens. */
export const removeExpiredSessions = deletionInBatches('sessions.delete_expired', {
  parameters: {},
  table: sessions,
  condition: () => sql`expires_at <= ${retentionTime}`,
  limit: 100,
})
