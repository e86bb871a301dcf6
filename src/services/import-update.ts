import { createHash } from 'node:crypto'
import { type KnownRecord, type WrittenRow, writeFields } from '../db/import-records.ts'
import type { Principal } from '../domain/permissions.ts'
import type { TaskFields, TaskPatch } from '../domain/task-fields.ts'
import type { TaskRecord } from '../interchange/records.ts'
import { Problem } from '../problems/problems.ts'
import type { OpTransaction } from './context.ts'
import { openPlan, writePlan } from './task-plan.ts'
import { countOwnedTasks } from './task-quota.ts'
import { referencesOfBatch } from './task-references.ts'
import { planUpdate } from './task-rules.ts'

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

/** Updates tasks, and returns what became of their rows. */
export const updateImported = async (
  tx: OpTransaction<Principal>,
  source: string,
  updates: readonly ImportUpdate[],
  taskQuota: number | null,
): Promise<readonly WrittenRow[]> => {
  const differing = updates.map((update) => ({ ...update, changed: differences(update) }))
  const patches = differing
    .filter(({ changed }) => changed.length > 0)
    .map(({ record, known, changed }) => ({ task_id: known.resource_id, patch: patchOf(record, changed) }))
  const plan = await openPlan(tx, referencesOfBatch({ update: patches }, tx.principal.userId))
  const rows = differing.map(({ number, record, known, changed }): WrittenRow => {
    const id = known.resource_id
    const row = { number, type: 'task', source_id: record.id, resource_id: id }
    const before = plan.before.get(id)
    const unchanged =
      before === undefined || before.isTrashed
        ? []
        : changed.filter((part) => isAsImported(part, before, known))
    if (unchanged.length === 0) return { ...row, outcome: 'skipped', ...importedBefore }
    try {
      planUpdate(plan, { id, conditions: { ifMatch: null, ifNoneMatch: null } }, patchOf(record, unchanged))
      return { ...row, outcome: 'updated' }
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      return { ...row, outcome: 'skipped', code: 'not_allowed', message: error.message }
    }
  })
  await writePlan(tx, plan)
  await countOwnedTasks(tx, plan, taskQuota)
  await writeFields(
    tx,
    source,
    differing
      .filter(({ changed }) => changed.length > 0)
      .map(({ record }) => ({ source_id: record.id, fields: digestsOf(record) })),
  )
  return rows
}

export const importedBefore = {
  code: 'imported_before',
  message: 'An earlier import has created it.',
} as const

/** The parts in which the file differs from the last import. */
const differences = ({ record, known }: ImportUpdate): readonly Part[] => {
  const { fields } = known
  return fields === null ? [] : partNames.filter((part) => digest(parts[part](record)) !== fields[part])
}

const isAsImported = (part: Part, present: Comparable, { fields }: KnownRecord): boolean =>
  fields !== null && digest(parts[part](present)) === fields[part]
