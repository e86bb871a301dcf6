import type { Outcome } from '../domain/outcome.ts'
import { expectDone } from '../problems/problems.ts'
import { FileMissing } from '../storage/storage.ts'

/**
 * Opens the file of an attachment that was found a moment ago. One that is missing is lost, unless `find` finds the
 * attachment no more: then it was deleted meanwhile, which is nothing to worry about.
 */
export const openUnlessDeleted = async <T>(
  open: () => Promise<T>,
  find: () => Promise<Outcome<unknown>>,
): Promise<T> => {
  try {
    return await open()
  } catch (error) {
    if (error instanceof FileMissing) expectDone(await find())
    throw error
  }
}
