import type { AuditAction } from '../domain/audit.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import { canonicalTimeZone, defaultTimeZone } from '../domain/time-zones.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsOwn } from './access/permissions.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { WritesRefused } from './engine/errors.ts'
import { newId } from './engine/ids.ts'
import { parameter, type Placeholders, type Row } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { sessionJson, userJson } from './read-models.ts'
import { retentionTime } from './engine/retention.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A session that was started or refreshed. */
export interface StartedSession {
  readonly sessionId: string
  readonly userId: string
  /** The session's user as JSON text. */
  readonly userJson: string
  /** Seconds until the refresh token expires unless it is used. */
  readonly refreshExpiresIn: number
  /** When its current tokens were issued, in milliseconds since the epoch. */
  readonly issuedAt: number
  /** Seconds since then. The database says it: an instance only estimates the database's clock. */
  readonly age: number
}

/** Lifetime of an unused refresh token. */
export const idleLifetime = sql.raw(`interval '7 days'`)

/** Maximum lifetime of a session, regardless of refreshes. */
export const maxLifetime = sql.raw(`interval '30 days'`)

/** The precision of `last_used_at`: bounds the writes of a credential that is used often. */
const lastUsedPrecision = sql.raw(`interval '1 minute'`)

/** Whether `last_used_at` need not be written again. A time that is ahead is from before the clock was set back. */
export const isUseRecorded = (time: SQL): SQL =>
  sql`(${time} between now() - ${lastUsedPrecision} and now() + ${lastUsedPrecision})`

const person = sql.raw('person')
const session = sql.raw('session')
const token = sql.raw('token')

/** Parameters of a statement that starts a session. */
export const sessionParameters = { session_id: 'uuid', token_hash: 'bytes' } as const

/** Values for `sessionParameters`. */
export const sessionValues = (tokenHash: Buffer) => ({
  session_id: newId(),
  token_hash: tokenHash,
})

/** The columns of a statement that starts or refreshes a session. */
export const startedColumns = {
  session_id: 'text',
  user_id: 'text',
  user_json: 'text',
  expires_in: 'int',
  issued_at: 'int8',
  age: 'int',
} as const

/** The end of a statement with `person`, `session` and `token`. Instants have milliseconds, so `now()` is rounded to them. */
export const selectStarted = (...more: readonly SQL[]): SQL => {
  const columns: readonly SQL[] = [
    sql`${columnsOf<'sessions'>(session).id}::text as session_id`,
    sql`${columnsOf<'users'>(person).id}::text as user_id`,
    sql`${userJson(person, { caller: columnsOf<'users'>(person).id, is_admin: sql`false`, in_session: sql`true` })} as user_json`,
    sql`floor(extract(epoch from ${columnsOf<'refresh_tokens'>(token).expires_at} - now()::timestamptz(3)))::int as expires_in`,
    sql`(extract(epoch from ${columnsOf<'refresh_tokens'>(token).created_at}) * 1000)::bigint as issued_at`,
    sql`greatest(floor(extract(epoch from now()::timestamptz(3) - ${columnsOf<'refresh_tokens'>(token).created_at})), 0)::int as age`,
    ...more,
  ]
  return sql`select ${sql.join([...columns], sql`, `)} from person, session, token`
}

export const readStarted = (row: Row<typeof startedColumns> | undefined): StartedSession | null =>
  row === undefined
    ? null
    : {
        sessionId: row.session_id,
        userId: row.user_id,
        userJson: row.user_json,
        refreshExpiresIn: row.expires_in,
        issuedAt: row.issued_at,
        age: row.age,
      }

/** A part of a statement, to be named `token`, that stores a refresh token of the row `session`. */
export const insertRefreshToken = (hash: SQL): SQL => {
  const { id, expires_at } = columnsOf<'sessions'>(session)
  const { columns, values } = insertion<'refresh_tokens'>({
    hash,
    session_id: id,
    expires_at: sql`least(now() + ${idleLifetime}, ${expires_at})`,
  })
  return sql`insert into refresh_tokens (${columns}) select ${values} from session returning *`
}

/** The end of a statement that starts a session of the user in its part `person`, and records `action`. */
export const startSession = (
  p: ContextPlaceholders & Placeholders<typeof sessionParameters>,
  action: AuditAction = 'sign_in.succeeded',
): SQL => {
  const { columns, values } = insertion<'sessions'>({
    id: p.session_id,
    user_id: columnsOf<'users'>(person).id,
    expires_at: sql`now() + ${maxLifetime}`,
    user_agent: p.audit_user_agent,
    address: p.audit_address,
  })
  const started = auditEvent(p, action, { user: sql`user_id`, actor: sql`user_id`, session: sql`id` })
  return sql`
    session as (
      insert into sessions (${columns}) select ${values} from person returning *
    ), token as (
      ${insertRefreshToken(p.token_hash)}
    ), audit as (${audit(p, sql`${started} from session`)})
    ${selectStarted(auditColumn)}`
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

export const selectPrincipal = (user: SQL): SQL => {
  const { id, role, time_zone, task_quota } = columnsOf<'users'>(user)
  return sql`${id}::text as user_id, ${role}, ${time_zone}, ${task_quota}`
}

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
  from sessions session join users person on person.id = session.user_id
  where session.expires_at > now() and ${columnsOf<'users'>(person).deleted_at} is null and not ${columnsOf<'users'>(person).is_disabled}`

const selectLive = (p: Placeholders<typeof liveParameters>): SQL => sql`
  select ${selectPrincipal(person)} ${fromLiveSessions}
    and session.id = ${p.session_id} and session.user_id = ${p.user_id}`

const live = statement('sessions.select_live', liveParameters, principalColumns, selectLive)

const useLive = statement(
  'sessions.use',
  liveParameters,
  principalColumns,
  (p) => sql`
    with used as (
      update sessions set ${assignments<'sessions'>({ last_used_at: sql`now()` })}
      where id = ${p.session_id} and user_id = ${p.user_id} and expires_at > now()
        and not ${isUseRecorded(columnsOf<'sessions'>(sql`sessions`).last_used_at)}
    )
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

const isLive = sql`item.expires_at > now() and exists (
    select from refresh_tokens token
    where token.session_id = item.id and token.spent_at is null and token.expires_at > now())`

/** A page of the caller's own sessions. */
export const selectSessions = (
  { db, principal }: OpContext<SessionPrincipal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'sessions',
      from: sql`sessions item`,
      branches: (caller) => onlyBranch(sql`${allowsOwn('session.see', caller, sql`item`)} and ${isLive}`),
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => sessionJson(row, parameter('session_id', 'uuid')),
      values: { session_id: principal.credential.sessionId },
    },
    principal,
    page,
  )

const remove = query(
  'sessions.delete',
  { id: 'uuid' },
  { id: 'text' },
  (p) => sql`
    with session as (
      delete from sessions session
      where id = ${p.id} and ${allowsOwn('session.end_other', p, session)} and expires_at > now() returning *
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'session.ended', { user: sql`user_id`, session: sql`id` })} from session`,
    )})
    select ${columnsOf<'sessions'>(session).id}::text, ${auditColumn} from session`,
)

/** Ends a session of the caller, with its refresh tokens. */
export const deleteSession = async (ctx: OpContext<Principal>, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return found(row)
}

const removeAll = query(
  'sessions.delete_all',
  {},
  {},
  (p) => sql`
    with session as (
      delete from sessions session where ${allowsOwn('session.end_other', p, session)}
    ), audit as (${audit(p, auditEvent(p, 'session.all_ended', { user: p.caller }))})
    select ${auditColumn}`,
)

/** Ends every session of the caller. */
export const deleteSessions = async (ctx: OpContext<Principal>): Promise<void> => {
  await removeAll(ctx, {})
}

/** Deletes sessions that have ended, with their refresh tokens. */
export const removeExpiredSessions = deletionInBatches('sessions.delete_expired', {
  parameters: {},
  table: 'sessions',
  condition: () => sql`expires_at <= ${retentionTime}`,
  limit: 100,
})
