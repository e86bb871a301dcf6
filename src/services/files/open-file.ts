import { FileMissing } from '../../storage/storage.ts'
import { expectFound } from '../shared/expectations.ts'

/**
 * Opens the file of a row. If the file is missing, it is reported as lost only if `find` finds that the row still has it; otherwise it was
 * deleted in the meantime, and the problem is that of `find`, or 404 if it returns null.
 *
 * @throws FileMissing, Problem 404, and as `find`
 */
export const openUnlessDeleted = async <T>(
  open: () => Promise<T>,
  find: () => Promise<object | null>,
): Promise<T> => {
  try {
    return await open()
  } catch (error) {
    if (error instanceof FileMissing) expectFound(await find())
    throw error
  }
}
