import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { listReader, type Principal, type Role } from '../../domain/shared/permissions.ts'
import { type AccessBranch, onlyBranch, rowsOfMemberships } from '../access/branches.ts'
import { allowsEvent, type CallerPlaceholders, seesEventOfTask, seesProject } from '../access/permissions.ts'
import { isMember } from '../access/access-relations.ts'
import { countingStatement, untilNone } from '../statements/batches.ts'
import { builder } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import {
  conditionsOf,
  constant,
  createdTimeFilters,
  filterBy,
  filterOneOf,
  isOfProjects,
  listOf,
  searched,
} from '../statements/conditions.ts'
import type { StatementContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { newest, selectPage, selectPageOf } from '../lists/list.ts'
import { eventJson } from '../shared/read-models.ts'
import { hasEvents, restampReaders } from './event-readers.ts'
import { retentionTime } from '../shared/retention.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { events, memberships, projects, tasks, webhookDeliveries } from '../schema/tables.ts'
import { isNotNil, listOfTask } from '../schema/task-order.ts'
import { isTaskVisible } from '../tasks/visibility.ts'

/**
 * Events record what was changed, and by whom. Triggers write them (routines.sql), or transactions (record-event.ts). Readers that must not miss any read them in the
 * order of their transactions, up to the horizon (see horizon.ts). Lists show all committed events by time, so that a client sees
 * its own change at once; while it pages from new to old, events can still commit on pages that it has already read.
 */

const event = aliasedTable(events, 'event')
const item = aliasedTable(events, 'item')
const membership = aliasedTable(memberships, 'membership')

const batch = sql.raw('500')

const removeOldest = countingStatement(
  'events.delete_oldest',
  { days: 'int' },
  (p) => sql`
    delete from events where ctid = any(array(
      select place from (
        select ${event}.ctid as place, ${event.created_at} from events event
        order by ${event.changed_in}, ${event.ordinal} limit ${batch}
      ) oldest where created_at < ${retentionTime} - make_interval(days => ${p.days})))
    returning 1`,
)

/** Deletes events that are older than the retention. */
export const removeOldEvents = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  await untilNone(() => removeOldest(db, { days }), stop)
}

const isAhead = sql`${event.changed_in} >= pg_snapshot_xmax(pg_current_snapshot())`

const restampBatch = countingStatement('events.restamp', {}, () =>
  builder
    .update(event)
    .set({ changed_in: sql`'0'` })
    .from(
      sql`(select ${event.changed_in}, ${event.ordinal} from events event where ${isAhead} limit ${batch}) ahead`,
    )
    .where(sql`(${event.changed_in}, ${event.ordinal}) = (ahead.changed_in, ahead.ordinal)`)
    .returning({ ordinal: event.ordinal }),
)

// Runs before the events. No index has the transactions of deliveries, so the table is read only if there are such events.
const restampDeliveries = countingStatement('webhook_deliveries.restamp', {}, () =>
  builder
    .update(webhookDeliveries)
    .set({ event_changed_in: sql`'0'` })
    .where(
      sql`${webhookDeliveries.id} in (
          select id from webhook_deliveries
          where ${hasEvents(isAhead)} and ${webhookDeliveries.event_changed_in} >= pg_snapshot_xmax(pg_current_snapshot())
          limit ${batch})`,
    )
    .returning({ id: webhookDeliveries.id }),
)

/** Orders events whose transactions are in the future by their ordinals alone: they were recorded in another database. */
export const restampEvents = (db: Database): Promise<void> =>
  restampReaders(db, async () => {
    const { signal } = new AbortController()
    await untilNone(() => restampDeliveries(db, {}), signal)
    await untilNone(() => restampBatch(db, {}), signal)
  })

/** The events without `ordinal`, since the list has a column of that name. */
const listedEvents = sql`(
  select ${listOf([
    event.id,
    event.type,
    event.actor_id,
    event.task_id,
    event.project_id,
    event.owner_id,
    event.assignee_id,
    event.resource_id,
    event.recipient_id,
    event.before,
    event.after,
    event.created_at,
  ])} from events event where ${event.recipient_id} is null) item`

/** Whether a type is one of the patterns, an array: types, `task.*` for all of a kind, and `*` for all. */
export const matchesEventTypes = (type: SQLWrapper, patterns: SQLWrapper): SQL =>
  sql`(array[${type}, split_part(${type}, '.', 1) || '.*', '*'] && ${patterns})`

/** Whether streams and webhooks get the row `event`. Of an import they get its end, and not each of its tasks. */
export const isSent = ({ type }: typeof events): SQL => sql`${type} <> 'task.imported'`

/** The events of a task, and those of its project and its members since the task is in the project. */
const historyBranches = (taskId: SQL, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const fromTask = (value: SQLWrapper): SQL => sql`(select ${value} from tasks where ${tasks.id} = ${taskId})`
  const since = fromTask(sql`coalesce(${tasks.placed_at}, ${tasks.created_at})`)
  const projectId = fromTask(tasks.project_id)
  return [
    ...onlyBranch(sql`${item.task_id} = ${taskId} and ${seesEventOfTask(caller, item, taskId)}`),
    ...onlyBranch(sql`
      ${item.task_id} is null and ${item.project_id} = ${projectId} and ${item.created_at} >= ${since}
      and ${seesProject(caller, projectId)}`),
  ]
}

/** A page of a task's history, if the caller sees the task. */
export const selectTaskEvents = (
  ctx: StatementContext<Principal>,
  { taskId, request }: { readonly taskId: string; readonly request: PageRequest },
): Promise<Page | null> =>
  selectPageOf(
    ctx,
    {
      name: 'task_events',
      table: events,
      from: listedEvents,
      branches: (caller) => historyBranches(parameter('task_id', 'uuid'), caller),
      values: { task_id: taskId },
      ...newest,
      json: eventJson,
    },
    request,
    () => isTaskVisible(ctx, taskId),
  )

/** Filters of the list. An event must match one value of each filter that is set, and be between the two times. */
export interface EventFilter {
  readonly type?: readonly string[]
  /** Ids, or `none` for personal tasks. */
  readonly project_id?: readonly string[]
  readonly actor_id?: readonly string[]
  readonly created_after?: string
  readonly created_before?: string
}

const timeFilters = createdTimeFilters(item.created_at)

const searchedFilters = {
  type: filterBy('text[]', (patterns) => matchesEventTypes(item.type, patterns)),
  actor_id: filterOneOf('uuid', item.actor_id),
}

/**
 * Access branches for the events `item`, by the state of the task that they record: those of the caller's projects, including the
 * trash, of personal tasks, and of assignments. Whether the caller still sees the task is checked row by row. `projects` restricts
 * them to some projects.
 */
const eventBranches = (
  role: Role,
  caller: CallerPlaceholders,
  projectIds: readonly string[] | undefined,
): readonly AccessBranch[] => {
  const chosen = projectIds === undefined ? null : parameter('project_ids', 'uuid[]')
  const inList = (id: SQLWrapper): SQL => sql`${listOfTask(item)} = ${id}`
  if (role === 'admin') {
    if (chosen === null || projectIds?.includes('none') === true) return onlyBranch(isNotNil(item.id))
    const rowsOfChosen = (rows: SQL): SQL => sql`
      select reached.* from (select distinct unnest(${chosen}) as id) chosen cross join lateral (${rows}) reached`
    return [{ select: (rows) => rowsOfChosen(rows(inList(sql`chosen.id`))) }]
  }
  const isOfMember = isMember(item.project_id, caller.caller, 'viewer')
  const isOwned = sql`(${item.project_id} is null and ${item.owner_id} = ${caller.caller})`
  return [
    {
      select: (rows, first) =>
        rowsOfMemberships(
          caller.caller,
          chosen === null ? sql`true` : sql`${membership.project_id} = any(${chosen})`,
          (options) => rows(inList(membership.project_id), options),
          first,
        ),
    },
    ...onlyBranch(inList(caller.caller)),
    {
      select: (rows) => sql`
        select reached.* from (
          select distinct granted.project_id from project_grants granted join projects on ${projects.id} = granted.project_id
          where granted.user_id = ${caller.caller} and ${projects.deleted_at} is not null and ${projects.purged_at} is null
        ) granted cross join lateral (${rows(sql`
          ${item.task_id} is null and ${item.project_id} = granted.project_id and ${item.type} = 'project.deleted'`)}) reached`,
    },
    {
      select: (rows) => rows(sql`${item.assignee_id} = ${caller.caller}`),
      isRepeated: sql`coalesce(${isOfMember} or ${isOwned}, false)`,
    },
  ]
}

/** A page of the events that the principal can see; with `all`, of the whole installation. */
export const selectEvents = (
  { db, principal }: StatementContext<Principal>,
  { all = false, ...filter }: EventFilter & { readonly all?: boolean },
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, { all })
  const caller = {
    caller: parameter('caller', 'uuid'),
    is_admin: constant(reader.role === 'admin'),
    in_session: sql`false`,
  }
  const { project_id: projects, ...others } = filter
  const isOfChosen = projects === undefined ? [] : [isOfProjects(item.project_id, projects)]
  // Not in the branches: of deleted tasks only the deletions are visible, so any number of consecutive events can be invisible.
  const isVisible = { sql: allowsEvent('event.see', caller, item), values: {} }
  return selectPage(
    db,
    {
      name: 'events',
      table: events,
      from: listedEvents,
      branches: (reading) => eventBranches(reader.role, reading, projects),
      filters: [
        ...conditionsOf(timeFilters, others),
        ...[...conditionsOf(searchedFilters, others), ...isOfChosen, isVisible].map(searched),
      ],
      ...newest,
      json: eventJson,
      values: { project_ids: (projects ?? []).filter((id) => id !== 'none') },
    },
    reader,
    page,
  )
}
