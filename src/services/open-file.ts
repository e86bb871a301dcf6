import type { Outcome } from '../domain/outcome.ts'
import { expectDone } from '../problems/problems.ts'
import { FileMissing } from '../storage/storage.ts'

/**
 * Opens the file of a row. If the file is missing, it is reported as lost only if `find` still finds the row; otherwise the row
 * was deleted in the meantime, and the refusal of `find` is thrown.
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
