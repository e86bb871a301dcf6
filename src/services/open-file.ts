import { FileMissing } from '../storage/storage.ts'
import { expectFound } from './expectations.ts'

/**
 * Opens the file of a row. If the file is missing, it is reported as lost only if `find` still finds the row; otherwise the row
 * was deleted in the meantime.
 *
 * @throws Problem 404
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
