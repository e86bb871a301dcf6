import { untilNone } from '../db/engine/batches.ts'
import {
  countRows,
  findMadeSection,
  forgetUndone,
  isProjectTouched,
  type KeptReason,
  type MadeRecord,
  markOthersUndone,
  markUndone,
  selectMadeRecords,
  versionsAsImported,
} from '../db/import-records.ts'
import { endImport } from '../db/imports.ts'
import { lockProject, moveToTrash, type ProjectFacts } from '../db/projects.ts'
import { recordProjectEvent } from '../db/record-event.ts'
import { type EditableSection, hasLiveTasks, lockSection } from '../db/sections.ts'
import { nilId } from '../domain/nil-id.ts'
import type { Authorized, Principal } from '../domain/permissions.ts'
import { subtasksOf } from '../domain/task-trees.ts'
import { Problem } from '../problems/problems.ts'
import type { OpTransaction } from './context.ts'
import { expectMay } from './expectations.ts'
import { type ImportWork, whileHeld } from './import-work.ts'
import { deleteIfEmptied, expectEditable } from './sections.ts'
import { openPlan, type TaskPlan, writePlan } from './task-plan.ts'
import { planDeletion } from './task-rules.ts'

/** Moves what an import has created to the trash, unless somebody has changed it since. */

/** Tasks per transaction. */
const batchSize = 50

export const undoImport = async (work: ImportWork): Promise<void> => {
  const { taken, progress, signal } = work
  await forEachMade(work, 'project', 1, ([project]) =>
    whileHeld(work, (tx) => undoProject(tx, taken.id, project)),
  )
  await forEachMade(work, 'task', batchSize, (tasks) => undoBatch(work, tasks))
  await undoSections(work)
  await untilNone(() => whileHeld(work, (tx) => markOthersUndone(tx, taken.id)), signal)
  await untilNone(() => whileHeld(work, (tx) => forgetUndone(tx, taken.id)), signal)
  await whileHeld(work, async (tx) => {
    const result = await countRows(tx, taken)
    await endImport(tx, taken, { status: 'undone', result, done: progress.done })
  })
}

/** What the import has made of a type, in batches. What is in the trash with its project is left out. */
const forEachMade = async (
  { ctx, taken }: ImportWork,
  type: 'project' | 'task',
  limit: number,
  undo: (made: readonly [MadeRecord, ...MadeRecord[]]) => Promise<void>,
): Promise<void> => {
  for (let after = nilId; ;) {
    const [first, ...others] = await selectMadeRecords(ctx, { importId: taken.id, type, after, limit })
    if (first === undefined) return
    await undo([first, ...others])
    after = (others.at(-1) ?? first).resource_id
  }
}

const undoProject = async (
  tx: OpTransaction<Principal>,
  importId: string,
  made: MadeRecord,
): Promise<void> => {
  const id = made.resource_id
  const project = await lockProject(tx, id, 'close')
  if (project === null) return
  const keep = (reason: KeptReason): Promise<void> => markUndone(tx, importId, new Map([[id, reason]]))
  if (await isProjectTouched(tx, importId, made)) return keep(changed)
  let managed: Authorized<'project.manage', ProjectFacts>
  try {
    managed = expectMay('project.manage', project)
  } catch (error) {
    return keep(notAllowed(error))
  }
  await Promise.all([moveToTrash(tx, managed), recordProjectEvent(tx, 'project.deleted', id)])
}

/** Tasks with very many subtasks together are undone one by one. */
const undoBatch = async (work: ImportWork, tasks: readonly MadeRecord[]): Promise<void> => {
  const { taken, progress } = work
  const isUndone = await whileHeld(work, (tx) => undoTasks(tx, taken.id, tasks))
  if (!isUndone) for (const task of tasks) await whileHeld(work, (tx) => undoTasks(tx, taken.id, [task]))
  progress.done += tasks.length
}

/** False if nothing was done, because the tasks have too many subtasks together. Parents come before their subtasks. */
const undoTasks = async (
  tx: OpTransaction<Principal>,
  importId: string,
  made: readonly MadeRecord[],
): Promise<boolean> => {
  const ids = made.map(({ resource_id }) => resource_id)
  const plan = await openPlan(tx, { tasks: ids, roots: ids })
  if (plan.hasTooManySubtasks && ids.length > 1) return false
  const versions = await versionsAsImported(tx, importId, [...plan.before.keys()])
  const reasons = new Map(ids.map((id) => [id, undoTask(plan, versions, id)]))
  await writePlan(tx, plan)
  await markUndone(tx, importId, reasons)
  return true
}

/** Plans that a task goes to the trash with its subtasks, unless one of them was changed. Returns why it stays; null if it does not. */
const undoTask = (plan: TaskPlan, versions: ReadonlyMap<string, number>, id: string): KeptReason | null => {
  const task = plan.tasks.get(id)
  if (task === undefined || task.isTrashed) return null
  const tree = [task, ...subtasksOf(plan.tasks.values(), id)]
  const isTouched = tree.some((one) => plan.before.get(one.id)?.version !== versions.get(one.id))
  if (isTouched) return changed
  try {
    planDeletion(plan, { id, conditions: { ifMatch: null, ifNoneMatch: null } })
    return null
  } catch (error) {
    return notAllowed(error)
  }
}

/** Sections have no trash: those that are empty again are deleted. */
const undoSections = async (work: ImportWork): Promise<void> => {
  const { ctx, taken } = work
  for (;;) {
    const section = await findMadeSection(ctx, taken.id)
    if (section === null) return
    await whileHeld(work, (tx) => undoSection(tx, taken.id, section))
  }
}

const undoSection = async (
  tx: OpTransaction<Principal>,
  importId: string,
  { id, project_id: projectId }: { readonly id: string; readonly project_id: string },
): Promise<void> => {
  const section = await lockSection(tx, { projectId, sectionId: id }, 'delete')
  if (section === null) return
  const mark = (reason: KeptReason | null): Promise<void> => markUndone(tx, importId, new Map([[id, reason]]))
  let editable: EditableSection
  try {
    editable = expectEditable(tx, section)
  } catch (error) {
    return mark(notAllowed(error))
  }
  if (section.version > 1 || (await hasLiveTasks(tx, editable))) return mark(changed)
  // With very many tasks in the trash, it is found again until all have left it.
  if (await deleteIfEmptied(tx, editable)) await mark(null)
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
