import { readTask } from '../../db/tasks/facts.ts'
import { selectSeries } from '../../db/tasks/single.ts'
import type { Occurrences } from '../../domain/tasks/recurrence.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { noSeries, occurrencesOf, previewOf, type RecurrenceChange } from '../../domain/tasks/series.ts'
import { dayAt } from '../../domain/shared/time-zones.ts'
import type { OpContext } from '../shared/context.ts'
import { expectSeen } from '../shared/expectations.ts'
import { expectRecurrence } from './recurrence.ts'

/**
 * The dates on which a task recurs after its own; null if it does not recur.
 *
 * @throws Problem 404
 */
export const listTaskOccurrences = async (
  ctx: OpContext<Principal>,
  id: string,
  limit: number,
): Promise<Occurrences | null> => {
  // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
  const [task, series] = await Promise.all([readTask(ctx, id), selectSeries(ctx, id)])
  expectSeen('task.see', task)
  return occurrencesOf(series ?? noSeries, limit)
}

/**
 * The first dates of a recurrence from a time or a day; by default, today.
 *
 * @throws Problem 400
 */
export const previewRecurrence = (
  { principal }: OpContext<Principal>,
  sent: RecurrenceChange,
  date: string | undefined,
  limit: number,
): Occurrences => {
  const recurrence = expectRecurrence(sent, null, principal.timeZone, '')
  const anchor = date ?? dayAt(Date.now(), recurrence.time_zone)
  return previewOf({ ...recurrence, anchor }, limit)
}
