import type { components } from '../../generated/openapi.ts'
import { last } from '../db/engine/transaction.ts'
import {
  changeReminder,
  type ComputedReminder,
  insertReminder,
  lockForReminder,
  lockReminder,
  type ReminderBasis,
  removeReminder,
  type ReminderFields,
  type ReminderFilter,
  type ReminderRow,
  selectReminder,
  selectReminders,
  viewReminder,
} from '../db/reminders.ts'
import type { Created } from '../domain/idempotency.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import type { Principal } from '../domain/permissions.ts'
import { maxPending, maxPerTask, readReminder, remindAt, type ReminderTime } from '../domain/reminders.ts'
import { problems } from '../problems/problems.ts'
import { type OpContext, transaction } from './context.ts'
import { expectFound, expectMatch, expectMay, expectSeen } from './expectations.ts'
import { idempotent } from './idempotency.ts'

type Schemas = components['schemas']

/** A page of the caller's reminders. */
export const listReminders = (
  ctx: OpContext<Principal>,
  filter: ReminderFilter,
  page: PageRequest,
): Promise<Page> => selectReminders(ctx, filter, page)

/** @throws Problem 404 */
export const getReminder = async (ctx: OpContext<Principal>, id: string): Promise<ReminderRow> =>
  expectFound(await selectReminder(ctx, id))

/**
 * Creates a reminder of the caller about a task that they see.
 *
 * @throws Problem 400, 404, 413
 */
export const createReminder = (
  ctx: OpContext<Principal>,
  taskId: string,
  sent: Schemas['ReminderCreate'],
): Promise<Created> => {
  const time = expectTime(sent)
  return idempotent(ctx, async (tx, id) => {
    const task = expectMay('task.see', expectSeen('task.see', await lockForReminder(tx, taskId)))
    if (task.of_task >= maxPerTask) throw quotaExceeded('task_reminders', maxPerTask, task.of_task)
    if (task.pending >= maxPending) throw quotaExceeded('reminders', maxPending, task.pending)
    const [, view] = await Promise.all([
      insertReminder(tx, id, taskId, computed({ ...time, snoozed_until: null }, task)),
      viewReminder(tx, id),
    ])
    return view
  })
}

/**
 * Changes when a reminder is due, or postpones it.
 *
 * @throws Problem 400, 404, 412
 */
export const updateReminder = (
  ctx: OpContext<Principal>,
  id: string,
  patch: Schemas['ReminderPatch'],
): Promise<ReminderRow> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('reminder.see', await lockReminder(tx, id))
    const reminder = expectMay('reminder.change', seen)
    expectMatch(tx, reminder)
    const after = patched(reminder, patch)
    if (after !== null) await changeReminder(tx, reminder, computed(after, reminder))
    return last(viewReminder(tx, id))
  })

/** @throws Problem 404, 412 */
export const deleteReminder = (ctx: OpContext<Principal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('reminder.see', await lockReminder(tx, id))
    const reminder = expectMay('reminder.change', seen)
    expectMatch(tx, reminder)
    await removeReminder(tx, reminder)
  })

const computed = (fields: ReminderFields, basis: ReminderBasis): ComputedReminder => ({
  ...fields,
  remind_at: fields.snoozed_until ?? remindAt(fields, basis, basis.time_zone),
})

/** A reminder after a merge patch; null if it changes nothing. Another time ends a postponement, unless the patch sets one. */
const patched = (
  { at, relative_to, offset_minutes, time_of_day, snoozed_until }: ReminderFields,
  sent: Schemas['ReminderPatch'],
): ReminderFields | null => {
  const present = { at, relative_to, offset_minutes, time_of_day }
  const time = expectTime(sent, present)
  const isMoved = timeFields.some((field) => time[field] !== present[field])
  const kept = isMoved ? null : snoozed_until
  const after = { ...time, snoozed_until: sent.snoozed_until === undefined ? kept : sent.snoozed_until }
  return isMoved || after.snoozed_until !== snoozed_until ? after : null
}

const timeFields = ['at', 'relative_to', 'offset_minutes', 'time_of_day'] as const

/** @throws Problem 400 */
const expectTime = (
  { at, relative_to, offset_minutes, time_of_day }: Schemas['ReminderPatch'],
  present?: ReminderTime,
): ReminderTime => {
  const sent = {
    ...(at !== undefined && { at }),
    ...(relative_to !== undefined && { relative_to: baseOf(relative_to) }),
    ...(offset_minutes !== undefined && { offset_minutes }),
    ...(time_of_day !== undefined && { time_of_day }),
  }
  const read = readReminder(sent, present)
  if ('message' in read) throw problems.invalidField(`/${read.field}`, read.message)
  return read
}

/** The contract has no other values. */
const baseOf = (text: string | null): ReminderTime['relative_to'] =>
  text === null ? null : text === 'due' ? 'due' : 'start'

const quotaExceeded = (resource: 'task_reminders' | 'reminders', quota: number, used: number) =>
  problems.quotaExceeded({ resource, quota, used, size: 1 })
