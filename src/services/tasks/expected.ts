import type { ExpectedTask, TaskExpectation } from '../../domain/tasks/expected.ts'
import { expectMetadata } from '../shared/metadata.ts'
import { expectRecurrence } from './recurrence.ts'

/**
 * What a request expects of a task, with a recurrence that is complete.
 *
 * @throws Problem 400
 */
export const readExpectation = (
  { recurrence, ...expected }: TaskExpectation,
  timeZone: string,
  pointer = '/expect',
): ExpectedTask => {
  expectMetadata(expected.metadata ?? {}, `${pointer}/metadata`)
  if (recurrence == null) return recurrence === null ? { ...expected, recurrence } : expected
  return {
    ...expected,
    recurrence: expectRecurrence(recurrence, null, timeZone, `${pointer}/recurrence`),
  }
}
