import { type MapError, problems } from '../problems/problems.ts'
import { FileMissing, FileTooLarge, StorageFull, StorageUnavailable } from './storage.ts'

/** Maps the errors of the file storage. */
export const storageProblem: MapError = (error) => {
  if (error instanceof FileTooLarge) return problems.contentTooLarge(error.maxBytes)
  if (error instanceof FileMissing) return problems.fileLost(error)
  if (error instanceof StorageFull) return problems.insufficientStorage(error)
  if (error instanceof StorageUnavailable)
    return problems.serviceUnavailable('The file storage is unavailable. Retry in a few seconds.', error)
  return null
}
