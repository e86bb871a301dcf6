import { createHash } from 'node:crypto'
import { type KnownRecord, type WrittenRow, writeFields } from '../../db/interchange/import-records.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { TaskFields, TaskPatch } from '../../domain/tasks/fields.ts'
import type { TaskRecord } from '../../interchange/records.ts'
import { Problem } from '../../problems/problems.ts'
import type { OpTransaction } from '../shared/context.ts'
import { type PlannedTask, type TaskPlan, writePlan } from '../tasks/plan.ts'
import { planUpdate } from '../tasks/rules.ts'

/**
 * Updates tasks that an earlier import has created: a field is written only if the file differs from the last import, and nobody has changed
 * it here since. What was imported is kept as digests.
 */

type Comparable = Pick<
  TaskFields,
  'title' | 'description' | 'status' | 'priority' | 'start_at' | 'start_on' | 'due_at' | 'due_on'
>

/** The parts of a task that are compared, each with its value. */
const parts = {
  title: ({ title }: Comparable) => title,
  description: ({ description }: Comparable) => description,
  status: ({ status }: Comparable) => status,
  priority: ({ priority }: Comparable) => priority,
  start: ({ start_at, start_on }: Comparable) => start_at ?? start_on ?? '',
  due: ({ due_at, due_on }: Comparable) => due_at ?? due_on ?? '',
} as const

type Part = keyof typeof parts

const partNames = Object.keys(parts) as readonly Part[]

/** The digests of a task's parts. */
export const digestsOf = (task: Comparable): Readonly<Record<string, string>> =>
  Object.fromEntries(partNames.map((part) => [part, digest(parts[part](task))]))

const digest = (value: string): string => createHash('sha256').update(value).digest('base64url').slice(0, 12)

/** A task of the file, and what an earlier import has made of it. */
export interface ImportUpdate {
  readonly number: number
  readonly record: TaskRecord
  readonly known: KnownRecord
}

/** What a file changes of a task, if nobody has changed that here. */
export const patchOfUpdate = (update: Pick<ImportUpdate, 'record' | 'known'>): TaskPatch =>
  patchOf(update.record, differences(update))

const patchOf = (record: TaskRecord, changed: readonly Part[]): TaskPatch => {
  const { title, description, status, priority, start_at, start_on, due_at, due_on } = record
  const values = {
    title: { title },
    description: { description },
    status: { status },
    priority: { priority },
    start: { start_at, start_on },
    due: { due_at, due_on },
  }
  return Object.assign({}, ...changed.map((part) => values[part])) as TaskPatch
}

/** Updates tasks, which were locked for that, and returns what became of their rows. */
export const updateImported = async (
  tx: OpTransaction<Principal>,
  source: string,
  plan: TaskPlan,
  updates: readonly ImportUpdate[],
): Promise<readonly WrittenRow[]> => {
  const results = updates.map((update) => planPatch(plan, update))
  await writePlan(tx, plan)
  await writeFields(
    tx,
    source,
    results.flatMap(({ digests }) => digests ?? []),
  )
  return results.map(({ row }) => row)
}

interface Planned {
  readonly row: WrittenRow
  /** What the task was imported with now, if it is updated. */
  readonly digests?: { readonly source_id: string; readonly fields: Readonly<Record<string, string>> }
}

/** Plans what the file has changed and nobody here. */
const planPatch = (plan: TaskPlan, update: ImportUpdate): Planned => {
  const { number, record, known } = update
  const { resource_id: id } = known
  const row = { number, type: 'task', source_id: record.id, resource_id: id }
  const before = plan.before.get(id)
  const isLive = before?.isTrashed === false
  const changed = isLive
    ? differences(update).filter((part) => mayChange(part, before) && isAsImported(part, before, known))
    : []
  if (changed.length === 0) return { row: { ...row, outcome: 'skipped', ...importedBefore } }
  try {
    planUpdate(plan, { id, conditions: { ifMatch: null, ifNoneMatch: null } }, patchOf(record, changed))
    const present = digestsOf(record)
    const written = Object.fromEntries(changed.map((part) => [part, present[part] ?? '']))
    const digests = { source_id: record.id, fields: { ...known.fields, ...written } }
    return { row: { ...row, outcome: 'updated' }, digests }
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return { row: { ...row, outcome: 'skipped', code: 'not_allowed', message: error.message } }
  }
}

export const importedBefore = {
  code: 'imported_before',
  message: 'An earlier import has created it.',
} as const

/** The parts in which the file differs from the last import. */
const differences = ({ record, known }: Pick<ImportUpdate, 'record' | 'known'>): readonly Part[] => {
  const { fields } = known
  return fields === null ? [] : partNames.filter((part) => digest(parts[part](record)) !== fields[part])
}

/** The occurrences of a recurring task in a file are tasks of their own: closing one here would make another. */
const mayChange = (part: Part, { recurrence }: PlannedTask): boolean =>
  recurrence === null || (part !== 'status' && part !== 'start' && part !== 'due')

const isAsImported = (part: Part, present: Comparable, { fields }: KnownRecord): boolean =>
  fields !== null && digest(parts[part](present)) === fields[part]
