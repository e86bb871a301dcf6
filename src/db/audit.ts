import type { AuditAction, Client } from '../domain/audit.ts'
import type { Principal } from '../domain/permissions.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { newId } from './engine/ids.ts'
import { auditEventJson } from './read-models.ts'
import {
  conditionsOf,
  createdAt,
  filterBy,
  filterOneOf,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { allowsAudit } from './access/permissions.ts'
import { type Placeholders, statement } from './engine/statement.ts'

/**
 * The audit trail. An event is written by the statement that makes the change, so that neither is there without the
 * other; the statement answers with it in its column `audit`, for the log.
 */

/** Parameters of a statement that writes an audit event; `auditValues` gives their values. */
export const auditParameters = {
  audit_id: 'uuid',
  audit_actor: 'uuid?',
  audit_session: 'uuid?',
  audit_token: 'uuid?',
  audit_address: 'text',
  audit_user_agent: 'text?',
  audit_request: 'text',
} as const

/** The column of a statement that writes audit events. */
export const auditColumns = { audit: 'text?' } as const

type AuditPlaceholders = Placeholders<typeof auditParameters>

/** Values for `auditParameters`; nobody has proven who they are when the principal is null. */
export const auditValues = (client: Client, principal: Principal | null) => ({
  audit_id: newId(),
  audit_actor: principal?.userId ?? null,
  audit_session: principal?.credential.kind === 'session' ? principal.credential.sessionId : null,
  audit_token: principal?.credential.kind === 'api_token' ? principal.credential.tokenId : null,
  audit_address: client.address,
  audit_user_agent: client.userAgent,
  audit_request: client.requestId,
})

/** What an event is about. What is left out is the principal's own: who acts, with which session or API token. */
interface About {
  /** Whose access it is about. */
  readonly user: SQL
  readonly actor?: SQL
  readonly session?: SQL
  readonly token?: SQL
  /** For the second event of one statement. */
  readonly id?: SQL
}

/** The row of an event. */
export const auditEvent = (
  p: AuditPlaceholders,
  action: AuditAction,
  { user, actor, session, token, id = p.audit_id }: About,
): SQL => sql`
  select ${id} as id, ${sql.raw(`'${action}'`)} as action, coalesce(${actor ?? sql`null`}, ${p.audit_actor}) as actor_id,
    ${user} as user_id, coalesce(${session ?? sql`null`}, ${p.audit_session}) as session_id,
    coalesce(${token ?? sql`null`}, ${p.audit_token}) as token_id`

/** A part of a statement, to be named `audit`, that writes the events that `events` selects. */
export const audit = (p: AuditPlaceholders, events: SQL): SQL => sql`
  insert into audit_events (id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id)
  select id, action, actor_id, user_id, session_id, token_id, ${p.audit_address}, ${p.audit_user_agent},
    ${p.audit_request}
  from (${events}) event returning *`

/** The column `audit` of a statement whose part of that name is `audit`. */
export const auditColumn = sql`
  (select '[' || string_agg(${auditEventJson(sql`audit`)}, ',') || ']' from audit) as audit`

const singleEvent = (action: AuditAction) =>
  statement(
    { user_id: 'uuid?', ...auditParameters },
    auditColumns,
    (p) => sql`with audit as (${audit(p, auditEvent(p, action, { user: p.user_id }))}) select ${auditColumn}`,
  )

const failures = {
  'sign_in.failed': singleEvent('sign_in.failed'),
  'proof.failed': singleEvent('proof.failed'),
}

/** Puts down that somebody failed to prove who they are; `userId` is null when no account has the address. */
export const insertFailure = async (
  db: Database,
  action: keyof typeof failures,
  { client, principal, userId }: { client: Client; principal: Principal | null; userId: string | null },
): Promise<void> => {
  await failures[action](db, { user_id: userId, ...auditValues(client, principal) })
}

const readsByAdmin = {
  'task.read_by_admin': singleEvent('task.read_by_admin'),
  'attachment.read_by_admin': singleEvent('attachment.read_by_admin'),
}

/**
 * Records that an administrator reads a task or a file of `ownerId`; nothing is recorded if that is null. A statement of
 * its own, so that reads do not need a database that can be written to.
 */
export const auditReadByAdmin = async (
  db: Database,
  action: keyof typeof readsByAdmin,
  { client, principal, ownerId }: { client: Client; principal: Principal; ownerId: string | null },
): Promise<void> => {
  if (ownerId === null) return
  await readsByAdmin[action](db, { user_id: ownerId, ...auditValues(client, principal) })
}

/** Which events a list holds: those with one of the values in each filter that is there, between the two times. */
export interface AuditFilter {
  readonly actor_id?: readonly string[]
  readonly user_id?: readonly string[]
  readonly action?: readonly AuditAction[]
  readonly created_after?: string
  readonly created_before?: string
}

const filterFields = {
  actor_id: filterOneOf('uuid', sql`item.actor_id`),
  user_id: filterOneOf('uuid', sql`item.user_id`),
  action: filterOneOf('text', sql`item.action`),
  created_after: filterBy('instant', (value) => sql`item.created_at > ${value}`),
  created_before: filterBy('instant', (value) => sql`item.created_at < ${value}`),
} as const

/** A page of the audit trail, as far as the principal may see it. */
export const selectAuditEvents = (
  db: Database,
  principal: Principal,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'audit_events',
      from: sql`audit_events item`,
      seenBecause: (caller) => [allowsAudit('audit.see', caller)],
      filters: conditionsOf(filterFields, filter),
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => auditEventJson(row),
    },
    principal,
    page,
  )

/** Forgets events that are older than the trail is kept. */
export const removeOldAuditEvents = deletionInBatches(
  { days: 'int' },
  'audit_events',
  (p) => sql`created_at < now() - make_interval(days => ${p.days})`,
)
