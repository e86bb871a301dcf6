import type { Outcome } from '../domain/outcome.ts'
import { allowsTask } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  destinationOf,
  destinationParameters,
  gapColumns,
  gapFields,
  joinAnchor,
  joinGap,
  type OrderedList,
  placedRows,
  placeParameters,
  placeRow,
  refusalsOfPlace,
  rebalanceRows,
  windowColumns,
  windowFields,
} from './positions.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { listOfTask } from './schema/task-order.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  checkSubtaskCount,
  lockProjects,
  lockSections,
  lockTasksOfTrees,
  lockTrees,
  outcomeOfMove,
} from './task-writes.ts'
import { changedColumns, changeStatement, readChanged, type TaskRow } from './tasks.ts'

/** The destination of a task in a request. At most one of the first three fields is set. */
export interface TaskMove {
  readonly before?: string
  readonly after?: string
  /** Null for none. By default, the section of the task in `before` or `after`, or the present one within the same project. */
  readonly section_id?: string | null
  /** Null for the personal tasks of the owner. By default, the present project. */
  readonly project_id?: string | null
}

const task = sql.raw('task')
const target = sql.raw('target')

const parameters = {
  id: 'uuid',
  project_id: 'uuid?',
  changes_project: 'bool',
  ...destinationParameters,
} as const

type MovePlaceholders = Placeholders<typeof parameters> & ContextPlaceholders

/** The project that the row `row` moves to. */
const projectAfter = (p: MovePlaceholders, row: SQL): SQL =>
  sql`case when ${p.changes_project} then ${p.project_id} else ${columnsOf<'tasks'>(row).project_id} end`

/** The list that the task `task` moves to. */
const listAfter = (p: MovePlaceholders): OrderedList => {
  const { owner_id } = columnsOf<'tasks'>(task)
  return {
    table: sql`tasks`,
    holds: (row) =>
      sql`${listOfTask(columnsOf<'tasks'>(row))} = coalesce(${projectAfter(p, task)}, ${owner_id}) and ${columnsOf<'tasks'>(row).deleted_at} is null`,
  }
}

const selectGap = query('tasks.select_gap', parameters, gapColumns, (p) => {
  return sql`
    select ${gapFields} from tasks task ${joinGap(listAfter(p), p)}
    where task.id = ${p.id} and ${allowsTask('task.see', p, task)}`
})

const selectWindow = query('tasks.select_window', { ...parameters, size: 'int' }, windowColumns, (p) => {
  const list = listAfter(p)
  return sql`
    select ${windowFields(list, p, p.size)} from tasks task ${joinAnchor(list, p)}
    where task.id = ${p.id} and ${allowsTask('task.see', p, task)}`
})

const rebalance = query('tasks.rebalance', { moved: 'json' }, {}, (p) => rebalanceRows(sql`tasks`, p.moved))

const write = query(
  'tasks.move',
  { ...parameters, ...placeParameters, section_id: 'uuid?', changes_section: 'bool' },
  changedColumns,
  (p) => {
    const {
      section_id: presentSection,
      project_id: presentProject,
      parent_id: presentParent,
    } = columnsOf<'tasks'>(target)
    const project = projectAfter(p, target)
    const section = sql`case
      when ${p.changes_section} then ${p.section_id}
      when ${p.anchor} is not null then (select anchor.section_id from anchor)
      when ${project} is not distinct from ${presentProject} then ${presentSection} end`
    const parent = sql`case when ${project} is not distinct from ${presentProject} then ${presentParent} end`
    const written = sql`select ${p.id} union select ${p.anchor} union select read.id from ${placedRows(p.neighbours)}`
    const ifLeaving = (ids: SQL): SQL => sql`select id from (${ids}) written (id) where ${p.changes_project}`
    return changeStatement(p, {
      parts: sql`
        ${lockTrees(p, { tasks: ifLeaving(written), roots: ifLeaving(sql`select ${p.id}`) })}, visible_projects as (
          ${lockProjects(p, p.project_id)}
        ), visible_sections as (
          ${lockSections(p.section_id)}
        ), locked as materialized (
          ${lockTasksOfTrees(p, written)}
        ), targets as (
          select * from locked where id = ${p.id}
        ), ${checkSubtaskCount(sql`select id from targets where subtask_count > 0 and ${p.changes_project}`)}, anchor as (
          select anchor.* from locked anchor, targets target
          where anchor.id = ${p.anchor} and anchor.id <> target.id
            and ${listOfTask(columnsOf<'tasks'>(sql`anchor`))} = coalesce(${project}, ${columnsOf<'tasks'>(target).owner_id})
        ), change as (
          select target.id, ${project} as project_id, ${section} as section_id, ${parent} as parent_id, null as unknown_tag,
            ${outcomeOfMove(p, target, {
              project,
              section: sql`case when ${p.changes_section} then ${p.section_id} end`,
              refusals: sql`
                when ${p.anchor} is not null and not exists (select from anchor) then 'unknown_' || ${p.side}
                ${refusalsOfPlace(p, sql`locked`)}`,
            })} as outcome
          from targets target
        )`,
      update: sql`
        update tasks task set ${assignments<'tasks'>({
          project_id: sql`change.project_id`,
          section_id: sql`change.section_id`,
          parent_id: sql`change.parent_id`,
          position: p.position,
        })} from change where task.id = change.id and outcome = 'done'`,
    })
  },
)

/** Moves a task to another place, section or project. */
export const moveTask = async (
  ctx: OpContext,
  taskId: string,
  { project_id, section_id, ...where }: TaskMove,
): Promise<Outcome<TaskRow>> => {
  const destination = destinationOf(where)
  const move = {
    id: taskId,
    project_id: project_id ?? null,
    changes_project: project_id !== undefined,
    ...destination,
  }
  const section = { section_id: section_id ?? null, changes_section: section_id !== undefined }
  const [row] = await placeRow(destination.side, {
    readGap: async () => (await selectGap(ctx, move))[0],
    write: async (placeOf) => write(ctx, { ...move, ...section, ...(await placeOf(taskId)) }),
    outcomeOf: ([written]) => written?.outcome,
    readWindow: async (_, size) => (await selectWindow(ctx, { ...move, size }))[0],
    rebalance: (moved) => rebalance(ctx, { moved }),
  })
  return readChanged(ctx, taskId, row)
}
