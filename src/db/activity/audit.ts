import type { AuditAction, AuditedContent, ShownContent } from '../../domain/activity/audit.ts'
import type { RelationExpansion, TaskExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { bearerOf, type Principal } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsAudit, allowsTask, isProjectSeenByRole, isTaskSeenByRole } from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext } from '../statements/context.ts'
import { newId } from '../shared/ids.ts'
import type { ParametersOf, Placeholders } from '../statements/parameters.ts'
import { type Query, query } from '../statements/statement.ts'
import { retentionTime } from '../shared/retention.ts'
import { conditionsOf, createdTimeFilters, filterOneOf } from '../statements/conditions.ts'
import { newest, selectPage } from '../lists/list.ts'
import { auditEventJson } from '../shared/read-models.ts'
import { aliasedTable, type SQL, sql } from '../schema/drizzle.ts'
import { attachments, auditEvents, comments, projects, taskRelations, tasks } from '../schema/tables.ts'

/**
 * The audit trail. The transaction of a change also records its event, so that neither exists without the other.
 */

const task = aliasedTable(tasks, 'task')
const project = aliasedTable(projects, 'project')
const comment = aliasedTable(comments, 'comment')
const attachment = aliasedTable(attachments, 'attachment')
const item = aliasedTable(auditEvents, 'item')

const record = builtStatement(
  'audit_events.record',
  {
    id: 'uuid',
    action: 'text',
    actor_id: 'uuid?',
    user_id: 'uuid?',
    session_id: 'uuid?',
    token_id: 'uuid?',
    address: 'text?',
    user_agent: 'text?',
    request_id: 'text',
  } satisfies ParametersOf<typeof auditEvents>,
  (db, p) => db.insert(auditEvents).values(p).returning({ created_at: auditEvents.created_at }),
)

/** What an event is about. What is omitted is the caller's: the user who acts, their session and their API token. */
interface AuditSubject {
  /** The user whose access is concerned; null when there is no such account. */
  readonly userId: string | null
  readonly actorId?: string
  readonly sessionId?: string
  readonly tokenId?: string
}

/**
 * Records an event in the audit trail and in the log, where it appears after the commit.
 *
 * A change calls it in its transaction. A refusal is recorded with the context of the operation, not of the transaction, which would
 * be rolled back with the refusal's problem.
 */
export const recordAudit = async (
  { db, principal, client }: StatementContext,
  action: AuditAction,
  { userId, actorId, sessionId, tokenId }: AuditSubject,
): Promise<void> => {
  const credential = principal && bearerOf(principal.credential)
  const isShell = principal?.credential.kind === 'shell'
  const event = {
    id: newId(),
    action,
    actor_id: actorId ?? (isShell ? null : (principal?.userId ?? null)),
    user_id: userId,
    session_id: sessionId ?? (credential?.kind === 'session' ? credential.sessionId : null),
    token_id: tokenId ?? (credential?.kind === 'api_token' ? credential.tokenId : null),
    address: isShell ? null : client.address,
    user_agent: client.userAgent,
    request_id: client.requestId,
  }
  const rows = await record(db, event)
  for (const row of rows) db.audited?.({ ...event, ...row })
}

const parameters = { id: 'uuid' } as const
const taskParameters = { ...parameters, expand: 'text[]' } as const
const columns = { owner_id: 'text?' } as const

/** By the parameter of a path: a row with the owner, if the caller, an administrator, sees the content only by their role. */
const selectSeenByRole: Readonly<
  Record<ShownContent['parameter'], Query<typeof parameters, typeof columns>>
> = {
  task_id: query(
    'audit.select_task',
    parameters,
    columns,
    (p) => sql`
      select ${task.owner_id}::text from tasks task where ${task.id} = ${p.id} and ${isTaskSeenByRole(p, task)}`,
  ),
  comment_id: query(
    'audit.select_comment',
    parameters,
    columns,
    (p) => sql`
      select ${task.owner_id}::text from comments comment join tasks task on ${task.id} = ${comment.task_id}
      where ${comment.id} = ${p.id} and ${isTaskSeenByRole(p, task)}`,
  ),
  attach_id: query(
    'audit.select_attachment',
    parameters,
    columns,
    (p) => sql`
      select ${task.owner_id}::text from attachments attachment join tasks task on ${task.id} = ${attachment.task_id}
      where ${attachment.id} = ${p.id} and ${isTaskSeenByRole(p, task)}`,
  ),
  project_id: query(
    'audit.select_project',
    parameters,
    columns,
    (p) => sql`
      select null as owner_id from projects project
      where ${project.id} = ${p.id} and ${isProjectSeenByRole(p, project)}`,
  ),
  user_id: query(
    'audit.select_user',
    parameters,
    columns,
    (p) => sql`select ${p.id}::text as owner_id where ${p.id} <> ${p.caller}`,
  ),
}

/** The ids of the tasks in a response about a task: itself, and those that `expand` embeds. */
const shownTasks = (p: Placeholders<typeof taskParameters>): SQL => {
  const expands = (name: TaskExpansion | RelationExpansion): SQL =>
    sql`${sql.raw(`'${name}'`)} = any(${p.expand})`
  const { task_id, other_task_id } = taskRelations
  return sql`
    select ${p.id}
    union all select ${tasks.parent_id} from tasks where ${tasks.id} = ${p.id} and ${expands('parent')}
    union all select ${tasks.id} from tasks where ${tasks.parent_id} = ${p.id} and ${expands('subtasks')}
    union all select ${other_task_id} from task_relations where ${task_id} = ${p.id} and ${expands('task')}
    union all select ${task_id} from task_relations where ${other_task_id} = ${p.id} and ${expands('task')}`
}

/**
 * A row with an owner if an administrator sees any part of a task with expansions only by their role. A statement of its own, because
 * PostgreSQL plans everything that a response can embed anew for each request.
 */
const selectExpandedTask = query('audit.select_expanded_task', taskParameters, columns, (p) => {
  const isItself = sql`${task.id} = ${p.id}`
  const isProjectSeen = sql`('project' = any(${p.expand}) and exists (
        select from projects project
        where ${project.id} = ${task.project_id} and ${isProjectSeenByRole(p, project)}))`
  return sql`
        select ${task.owner_id}::text from (${shownTasks(p)}) shown (id) join tasks task on ${task.id} = shown.id
        where (${isItself} and (${isTaskSeenByRole(p, task)} or ${isProjectSeen}))
          or (not ${isItself} and ${allowsTask('task.see', p, task)} and ${isTaskSeenByRole(p, task)})
        order by ${isItself} desc limit 1`
})

/**
 * Calls `respond`, and records a response with private content that the caller sees only as an administrator. Whether they do is
 * looked up first, because a write can give them another relation to the content. The event is a separate statement, so that reads
 * work on a read-only database.
 */
export const auditRead = async <R>(
  ctx: StatementContext,
  { kind, parameter, id, expand }: AuditedContent,
  respond: () => Promise<R>,
): Promise<R> => {
  if (ctx.principal?.role !== 'admin') return respond()
  const isExpandedTask = parameter === 'task_id' && expand.length > 0
  const [seen] = isExpandedTask
    ? await selectExpandedTask(ctx, { id, expand })
    : await selectSeenByRole[parameter](ctx, { id })
  const response = await respond()
  if (seen !== undefined) await recordAudit(ctx, `${kind}.read_by_admin`, { userId: seen.owner_id })
  return response
}

/** Filters of the list. An event must match one value of each filter that is set, and be between the two times. */
export interface AuditFilter {
  readonly actor_id?: readonly string[]
  readonly user_id?: readonly string[]
  readonly action?: readonly AuditAction[]
  readonly created_after?: string
  readonly created_before?: string
}

const filterFields = {
  actor_id: filterOneOf('uuid', item.actor_id),
  user_id: filterOneOf('uuid', item.user_id),
  action: filterOneOf('text', item.action),
  ...createdTimeFilters(item.created_at),
} as const

/** A page of the audit trail; empty for callers who are not administrators. */
export const selectAuditEvents = (
  { db, principal }: StatementContext<Principal>,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'audit_events',
      table: auditEvents,
      branches: (caller) => onlyBranch(allowsAudit('audit.see', caller)),
      filters: conditionsOf(filterFields, filter),
      ...newest,
      json: auditEventJson,
    },
    principal,
    page,
  )

/** Deletes events that are older than the retention. */
export const removeOldAuditEvents = deletionInBatches('audit_events.delete_old', {
  parameters: { days: 'int' },
  table: auditEvents,
  condition: (p) => sql`${auditEvents.created_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})
