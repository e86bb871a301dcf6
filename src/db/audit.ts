import type { AuditAction, AuditedContent, ShownContent } from '../domain/audit.ts'
import type { RelationExpansion, TaskExpansion } from '../domain/expansions.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsAudit, allowsTask, isProjectSeenByRole, isTaskSeenByRole } from './access/permissions.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import type { Placeholders } from './engine/parameters.ts'
import { type Query, query } from './engine/statement.ts'
import { retentionTime } from './engine/retention.ts'
import { conditionsOf, createdTimeFilters, filterOneOf } from './engine/conditions.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { auditEventJson } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * The audit trail. The statement that makes a change also writes its event, so that neither exists without the other, and returns
 * the event in its column `audit`, for the log.
 */

/** The subject of an event. Omitted fields default to the caller's: user, session and API token. */
interface Subject {
  /** The user whose access is concerned. */
  readonly user: SQL
  readonly actor?: SQL
  readonly session?: SQL
  readonly token?: SQL
  /** The id of the event. Required for the second event of a statement. */
  readonly id?: SQL
}

/** Selects the row of an event. */
export const auditEvent = (
  p: ContextPlaceholders,
  action: AuditAction | SQL,
  { user, actor = p.audit_actor, session = p.audit_session, token = p.audit_token, id = p.audit_id }: Subject,
): SQL => sql`
  select ${id} as id, ${typeof action === 'string' ? sql.raw(`'${action}'`) : action} as action, ${actor} as actor_id,
    ${user} as user_id, ${session} as session_id, ${token} as token_id`

/** A part of a statement, to be named `audit`, that writes the events that `events` selects. */
export const audit = (p: ContextPlaceholders, events: SQL): SQL => {
  const { columns, values } = insertion<'audit_events'>({
    id: sql`event.id`,
    action: sql`event.action`,
    actor_id: sql`event.actor_id`,
    user_id: sql`event.user_id`,
    session_id: sql`event.session_id`,
    token_id: sql`event.token_id`,
    address: p.audit_address,
    user_agent: p.audit_user_agent,
    request_id: p.audit_request,
  })
  return sql`insert into audit_events (${columns}) select ${values} from (${events}) event returning *`
}

/** The column `audit` of a statement with the part `audit`. */
export const auditColumn = sql`
  (select '[' || string_agg(${auditEventJson(sql`audit`)}, ',') || ']' from audit) as audit`

const insert = query(
  'audit_events.insert',
  { action: 'text', user_id: 'uuid?' },
  {},
  (p) => sql`
    with audit as (${audit(p, auditEvent(p, p.action, { user: p.user_id }))})
    select ${auditColumn}`,
)

/** Records a failure to prove an identity; `userId` is null when no account has the address. */
export const insertFailure = async (
  ctx: OpContext,
  action: 'sign_in.failed' | 'proof.failed',
  userId: string | null,
): Promise<void> => {
  await insert(ctx, { action, user_id: userId })
}

const task = sql.raw('task')
const project = sql.raw('project')
const tasks = columnsOf<'tasks'>(task)

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
      select ${tasks.owner_id}::text from tasks task where ${tasks.id} = ${p.id} and ${isTaskSeenByRole(p, task)}`,
  ),
  comment_id: query('audit.select_comment', parameters, columns, (p) => {
    const { id, task_id } = columnsOf<'comments'>(sql`comment`)
    return sql`
      select ${tasks.owner_id}::text from comments comment join tasks task on ${tasks.id} = ${task_id}
      where ${id} = ${p.id} and ${isTaskSeenByRole(p, task)}`
  }),
  attach_id: query('audit.select_attachment', parameters, columns, (p) => {
    const { id, task_id } = columnsOf<'attachments'>(sql`attachment`)
    return sql`
      select ${tasks.owner_id}::text from attachments attachment join tasks task on ${tasks.id} = ${task_id}
      where ${id} = ${p.id} and ${isTaskSeenByRole(p, task)}`
  }),
  project_id: query(
    'audit.select_project',
    parameters,
    columns,
    (p) => sql`
      select null as owner_id from projects project
      where ${columnsOf<'projects'>(project).id} = ${p.id} and ${isProjectSeenByRole(p, project)}`,
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
  const family = columnsOf<'tasks'>(sql`tasks`)
  const { task_id, other_task_id } = columnsOf<'task_relations'>(sql`task_relations`)
  return sql`
    select ${p.id}
    union all select ${family.parent_id} from tasks where ${family.id} = ${p.id} and ${expands('parent')}
    union all select ${family.id} from tasks where ${family.parent_id} = ${p.id} and ${expands('subtasks')}
    union all select ${other_task_id} from task_relations where ${task_id} = ${p.id} and ${expands('task')}
    union all select ${task_id} from task_relations where ${other_task_id} = ${p.id} and ${expands('task')}`
}

/**
 * A row with an owner if an administrator sees any part of a task with expansions only by their role. A statement of its own, because
 * PostgreSQL plans everything that a response can embed anew for each request.
 */
const selectExpandedTask = query('audit.select_expanded_task', taskParameters, columns, (p) => {
  const isItself = sql`${tasks.id} = ${p.id}`
  const isProjectSeen = sql`('project' = any(${p.expand}) and exists (
        select from projects project
        where ${columnsOf<'projects'>(project).id} = ${tasks.project_id} and ${isProjectSeenByRole(p, project)}))`
  return sql`
        select ${tasks.owner_id}::text from (${shownTasks(p)}) shown (id) join tasks task on ${tasks.id} = shown.id
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
  ctx: OpContext,
  { kind, parameter, id, expand }: AuditedContent,
  respond: () => Promise<R>,
): Promise<R> => {
  if (ctx.principal?.role !== 'admin') return respond()
  const isExpandedTask = parameter === 'task_id' && expand.length > 0
  const [seen] = isExpandedTask
    ? await selectExpandedTask(ctx, { id, expand })
    : await selectSeenByRole[parameter](ctx, { id })
  const response = await respond()
  if (seen !== undefined)
    await insert(ctx, { action: `${kind}.read_by_admin` satisfies AuditAction, user_id: seen.owner_id })
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
  actor_id: filterOneOf('uuid', sql`item.actor_id`),
  user_id: filterOneOf('uuid', sql`item.user_id`),
  action: filterOneOf('text', sql`item.action`),
  ...createdTimeFilters(sql`item.created_at`),
} as const

/** A page of the audit trail; empty for callers who are not administrators. */
export const selectAuditEvents = (
  { db, principal }: OpContext<Principal>,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'audit_events',
      from: sql`audit_events item`,
      branches: (caller) => onlyBranch(allowsAudit('audit.see', caller)),
      filters: conditionsOf(filterFields, filter),
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => auditEventJson(row),
    },
    principal,
    page,
  )

/** Deletes events that are older than the retention. */
export const removeOldAuditEvents = deletionInBatches('audit_events.delete_old', {
  parameters: { days: 'int' },
  table: 'audit_events',
  condition: (p) =>
    sql`${columnsOf<'audit_events'>(sql`audit_events`).created_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})
