import { untilNone } from '../../db/statements/batches.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import {
  countRows,
  type CreatedRow,
  type CreatedSection,
  findTouchedTasks,
  followRevisions,
  forgetUndone,
  isProjectTouched,
  type KeptReason,
  markRemainingRows,
  markUndone,
  selectCreatedRows,
  selectCreatedSections,
} from '../../db/interchange/import-records.ts'
import { endImport } from '../../db/interchange/imports.ts'
import { lockProject, moveToTrash, type ProjectFacts } from '../../db/projects/rows.ts'
import { recordProjectEvent } from '../../db/shared/record-event.ts'
import { type EditableSection, hasLiveTasks, lockSection } from '../../db/tasks/sections.ts'
import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import { subtaskChanges, subtasksOf } from '../../domain/tasks/trees.ts'
import { Problem } from '../../problems/problems.ts'
import type { OpTransaction } from '../shared/context.ts'
import { expectMay } from '../shared/expectations.ts'
import { type ImportWork, inLeaseOfActiveOwner } from './import-work.ts'
import { deleteIfEmptied, expectEditable } from '../tasks/sections.ts'
import { openPlan, type TaskPlan, writePlan } from '../tasks/plan.ts'
import { planDeletion } from '../tasks/rules.ts'

/** Moves what an import has created to the trash, unless somebody has changed it since. */

/** Rows per transaction. */
const batchSize = 50

/**
 * Undoes an import. Whatever goes or stays is marked as `undone` or `kept` in the same transaction, so that an attempt after an interrupted one
 * goes on with the rows that are still `created`.
 */
export const undoRun = async (work: ImportWork): Promise<void> => {
  const { ctx, held, progress, signal } = work
  const { created, undone, kept } = await countRows(ctx, held)
  progress.done = undone + kept
  progress.total = created
  const sections = Map.groupBy(await selectCreatedSections(ctx, held.id), ({ project_id }) => project_id)
  await forEachCreated(work, 'project', async (projects) => {
    for (const project of projects) {
      const made = sections.get(project.resource_id) ?? []
      await mark(work, (tx) => undoProject(tx, held.id, project, made))
    }
  })
  const large: CreatedRow[] = []
  await forEachCreated(work, 'task', async (tasks) => void large.push(...(await undoBatch(work, tasks))))
  // What is below them is gone, or stays. The deepest go first, so that those above them are small then.
  for (const task of large.toReversed())
    await mark(work, (tx) => undoTasks(tx, held.id, [task], { isLast: true }))
  for (const section of await selectCreatedSections(ctx, held.id)) await undoSection(work, section)
  await untilNone(() => mark(work, (tx) => markRemainingRows(tx, held.id)), signal)
  await untilNone(() => inLeaseOfActiveOwner(work, (tx) => forgetUndone(tx, held.id)), signal)
  await inLeaseOfActiveOwner(work, async (tx) => {
    const result = await countRows(tx, held)
    await endImport(tx, held, { status: 'undone', result, done: result.undone + result.kept })
  })
}

/** A transaction that marks rows. Returns their number. */
const mark = async (
  work: ImportWork,
  undo: (tx: OpTransaction<Principal>) => Promise<number>,
): Promise<number> => {
  const marked = await inLeaseOfActiveOwner(work, undo)
  work.progress.done += marked
  return marked
}

const forEachCreated = async (
  { ctx, held }: ImportWork,
  type: 'project' | 'task',
  undo: (rows: readonly CreatedRow[]) => Promise<void>,
): Promise<void> => {
  for (let after = 0; ;) {
    const rows = await selectCreatedRows(ctx, { importId: held.id, type, after, limit: batchSize })
    const last = rows.at(-1)
    if (last === undefined) return
    await undo(rows)
    after = last.number
  }
}

const undoProject = async (
  tx: OpTransaction<Principal>,
  importId: string,
  row: CreatedRow,
  sections: readonly CreatedSection[],
): Promise<number> => {
  const id = row.resource_id
  const project = await lockProject(tx, id, 'close')
  if (project === null) return 0
  const markRow = (reason: KeptReason | null) => markUndone(tx, new Map([[row.id, reason]]))
  const sectionIds = sections.map(({ resource_id }) => resource_id)
  if (await isProjectTouched(tx, importId, row, sectionIds)) return markRow(changed)
  let managed: Authorized<'project.manage', ProjectFacts>
  try {
    managed = expectMay('project.manage', project)
  } catch (error) {
    return markRow(notAllowed(error))
  }
  await pipeline(tx.db, {
    project: () => moveToTrash(tx, managed),
    event: () => recordProjectEvent(tx, 'project.deleted', id),
  })
  return markRow(null)
}

/** Tasks with very many subtasks together are undone one by one. Returns those that have too many alone. */
const undoBatch = async (work: ImportWork, tasks: readonly CreatedRow[]): Promise<readonly CreatedRow[]> => {
  const { held } = work
  const marked = await mark(work, (tx) => undoTasks(tx, held.id, tasks))
  if (marked > 0) return []
  if (tasks.length === 1) return tasks
  const large: CreatedRow[] = []
  for (const task of tasks) large.push(...(await undoBatch(work, [task])))
  return large
}

/** Marks none, and does nothing, if the tasks have too many subtasks together, unless it is the last time. */
const undoTasks = async (
  tx: OpTransaction<Principal>,
  importId: string,
  rows: readonly CreatedRow[],
  { isLast = false } = {},
): Promise<number> => {
  const ids = rows.map(({ resource_id }) => resource_id)
  const plan = await openPlan(tx, { tasks: ids, roots: ids })
  if (plan.hasTooManySubtasks && !isLast) return 0
  const touched = await findTouchedTasks(tx, importId, [...plan.before.keys()])
  const marks = new Map(rows.map((row) => [row.id, undoTask(plan, touched, row.resource_id)]))
  await writePlan(tx, plan)
  await followRevisions(tx, importId, [...subtaskChanges(plan.before, plan.tasks).keys()])
  return markUndone(tx, marks)
}

/** Plans that a task goes to the trash with its subtasks, unless one of them was changed. Returns why it stays; null if it does not. */
const undoTask = (plan: TaskPlan, touched: ReadonlySet<string>, id: string): KeptReason | null => {
  const task = plan.tasks.get(id)
  if (task === undefined || task.isTrashed) return null
  const tree = [task, ...subtasksOf(plan.tasks.values(), id)]
  if (tree.some((one) => touched.has(one.id))) return changed
  try {
    planDeletion(plan, { id, conditions: { ifMatch: null, ifNoneMatch: null } })
    return null
  } catch (error) {
    return notAllowed(error)
  }
}

/**
 * Sections have no trash: one that is empty again is deleted. With very many tasks in the trash, that takes several transactions. What is
 * begun is finished, whatever happens to the section meanwhile: it would stay without some of its tasks.
 */
const undoSection = async (work: ImportWork, created: CreatedSection): Promise<void> => {
  const begun = await inLeaseOfActiveOwner(work, (tx) => beginSection(tx, created))
  if (begun !== null) while (!(await inLeaseOfActiveOwner(work, (tx) => finishSection(tx, created, begun))));
  work.progress.done += 1
}

const markSection = (tx: OpTransaction<Principal>, { id }: CreatedSection, reason: KeptReason | null) =>
  markUndone(tx, new Map([[id, reason]]))

const lockCreated = (tx: OpTransaction<Principal>, { resource_id, project_id }: CreatedSection) =>
  lockSection(tx, { projectId: project_id, sectionId: resource_id }, 'delete')

/** Decides what becomes of a section, and marks it. Null unless tasks in the trash have yet to leave it. */
const beginSection = async (
  tx: OpTransaction<Principal>,
  created: CreatedSection,
): Promise<EditableSection | null> => {
  const marked = async (reason: KeptReason | null): Promise<null> => {
    await markSection(tx, created, reason)
    return null
  }
  const section = await lockCreated(tx, created)
  if (section === null) return marked(null)
  let editable: EditableSection
  try {
    editable = expectEditable(tx, section)
  } catch (error) {
    return marked(notAllowed(error))
  }
  if (section.version > 1 || (await hasLiveTasks(tx, editable))) return marked(changed)
  return (await deleteIfEmptied(tx, editable)) ? marked(null) : editable
}

/** Whether the section is deleted, and marked. */
const finishSection = async (
  tx: OpTransaction<Principal>,
  created: CreatedSection,
  begun: EditableSection,
): Promise<boolean> => {
  // Another request may have deleted it meanwhile.
  const isDeleted = (await lockCreated(tx, created)) === null || (await deleteIfEmptied(tx, begun))
  if (isDeleted) await markSection(tx, created, null)
  return isDeleted
}

const changed: KeptReason = {
  code: 'changed',
  message: 'Somebody has changed it since, or what belongs to it.',
}

/** A refusal as a reason: the caller may not delete it any more, or it has too many subtasks to delete at once. */
const notAllowed = (error: unknown): KeptReason => {
  if (!(error instanceof Problem)) throw error
  return { code: 'not_allowed', message: error.message }
}
