import type { components } from '../../../generated/openapi.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  changeReminder,
  type ComputedReminder,
  findEqualReminder,
  insertReminder,
  lockForReminder,
  lockReminder,
  type ReminderBasis,
  type ReminderFacts,
  removeReminder,
  type ReminderFields,
  type ReminderFilter,
  type ReminderRow,
  selectReminder,
  selectReminders,
  viewReminder,
} from '../../db/tasks/reminders.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import {
  fullQuota,
  isLongPast,
  maxPerTask,
  readReminder,
  remindAt,
  type ReminderTime,
} from '../../domain/tasks/reminders.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectSeen } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

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
 * @throws Problem 400, 404, 409, 413
 */
export const createReminder = (
  ctx: OpContext<Principal>,
  taskId: string,
  sent: Schemas['ReminderCreate'],
): Promise<Created> => {
  const time = readTime(sent)
  return idempotent(ctx, async (tx, id) => {
    // A repetition of the request can come later than the time.
    expectAhead(time.at, '/at')
    const { facts, equal } = await pipeline(tx.db, {
      facts: () => lockForReminder(tx, taskId),
      equal: () => findEqualReminder(tx, taskId, time),
    })
    const task = expectMay('task.see', expectSeen('task.see', facts))
    if (equal !== null) throw problems.reminderExists(equal)
    if (task.of_task >= maxPerTask) throw quotaExceeded('task_reminders', maxPerTask, task.of_task)
    const full = fullQuota(task)
    if (full !== null) throw quotaExceeded('reminders', full.quota, full.used)
    const { view } = await pipeline(tx.db, {
      reminder: () => insertReminder(tx, id, taskId, computed({ ...time, snoozed_until: null }, task)),
      view: () => viewReminder(tx, id),
    })
    return view
  })
}

/**
 * Changes when a reminder is due, or postpones it.
 *
 * @throws Problem 400, 404, 409, 412
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
    if (after !== null) {
      if (isAtOtherTime(after, reminder)) await expectNoEqual(tx, reminder.task_id, after)
      await changeReminder(tx, reminder, after)
    }
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

/** @throws Problem 409 */
const expectNoEqual = async (
  tx: OpTransaction<Principal>,
  taskId: string,
  time: ReminderTime,
): Promise<void> => {
  const equal = await findEqualReminder(tx, taskId, time)
  if (equal !== null) throw problems.reminderExists(equal)
}

const dueTime = (time: ReminderTime, basis: ReminderBasis): string | null =>
  remindAt(time, basis, basis.time_zone)

const computed = (fields: ReminderFields, basis: ReminderBasis): ComputedReminder => ({
  ...fields,
  remind_at: fields.snoozed_until ?? dueTime(fields, basis),
})

/** A reminder after a merge patch; null if it changes nothing. If it is then due at another time, it is not snoozed any more. */
const patched = (present: ReminderFacts, sent: Schemas['ReminderPatch']): ComputedReminder | null => {
  const { at, relative_to, offset_minutes, time_of_day, snoozed_until } = present
  const time = expectTime(sent, { at, relative_to, offset_minutes, time_of_day })
  const isChanged = isAtOtherTime(time, present)
  const isMoved = dueTime(time, present) !== dueTime(present, present)
  const isSnoozed = sent.snoozed_until !== undefined && sent.snoozed_until !== snoozed_until
  if (isSnoozed) expectAhead(sent.snoozed_until, '/snoozed_until')
  const snooze = isSnoozed ? (sent.snoozed_until ?? null) : isMoved ? null : snoozed_until
  return isChanged || snooze !== snoozed_until ? computed({ ...time, snoozed_until: snooze }, present) : null
}

const timeFields = ['at', 'relative_to', 'offset_minutes', 'time_of_day'] as const

const isAtOtherTime = (time: ReminderTime, present: ReminderTime): boolean =>
  timeFields.some((field) => time[field] !== present[field])

/** @throws Problem 400 */
const expectTime = (sent: Schemas['ReminderPatch'], present: ReminderTime): ReminderTime => {
  const read = readTime(sent, present)
  if (read.at !== present.at) expectAhead(read.at, '/at')
  return read
}

/** @throws Problem 400 */
const readTime = (
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

/** @throws Problem 400 */
const expectAhead = (instant: string | null | undefined, pointer: string): void => {
  if (instant != null && isLongPast(instant, new Date()))
    throw problems.invalidField(pointer, 'must not be in the past')
}

/** The contract has no other values. */
const baseOf = (text: string | null): ReminderTime['relative_to'] =>
  text === null ? null : text === 'due' ? 'due' : 'start'

const quotaExceeded = (resource: 'task_reminders' | 'reminders', quota: number, used: number) =>
  problems.quotaExceeded({ resource, quota, used, size: 1 })
