import { DatabaseUnavailable } from '../../db/engine/errors.ts'
import type { Storage, StoredFile } from '../../storage/storage.ts'

/**
 * Runs the work that makes use of a stored file, and removes the file unless it is used. If the outcome is unknown, a background job
 * decides later.
 */
export const keepIfUsed = async <T>(
  storage: Pick<Storage, 'remove'>,
  file: StoredFile,
  work: () => Promise<T>,
  isUsed: (result: T) => boolean,
): Promise<T> => {
  let isKept = false
  try {
    const result = await work()
    isKept = isUsed(result)
    return result
  } catch (error) {
    isKept = error instanceof DatabaseUnavailable
    throw error
  } finally {
    if (!isKept) await discardFile(storage, file)
  }
}

/** Removes a file that nothing uses. If that fails, a background job removes it later. */
export const discardFile = async (storage: Pick<Storage, 'remove'>, { key }: StoredFile): Promise<void> => {
  await Promise.allSettled([storage.remove(key)])
}
