import { memoizeFor } from '../concurrency/memoize.ts'
import type { Database } from '../db/engine/client.ts'
import { freeBytesOf, minFreeBytes } from '../db/engine/disk-space.ts'
import { checkConnection } from '../db/engine/health.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../storage/storage.ts'

/**
 * Checks the dependencies of the service. Without the file storage, it still serves everything except attachments.
 *
 * @throws DatabaseUnavailable
 */
export type CheckReadiness = () => Promise<{
  readonly isStorageReady: boolean
  /** Whether the embedded database has room for writes; a server is not examined. */
  readonly hasRoom: boolean
}>

interface Deps {
  readonly db: Database
  /** The folder of the embedded database; null with a server. */
  readonly databaseFolder: string | null
  readonly storage: Storage
  /** Milliseconds for which a result is cached, because the check writes a file and needs no authentication. */
  readonly readinessTime: number
}

export const createCheckReadiness = ({ db, databaseFolder, storage, readinessTime }: Deps): CheckReadiness =>
  memoizeFor(readinessTime, async () => {
    // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
    const [isStorageReady, freeBytes] = await Promise.all([
      canStore(storage),
      databaseFolder === null ? Infinity : freeBytesOf(databaseFolder).catch(() => Infinity),
      checkConnection(db),
    ])
    return { isStorageReady, hasRoom: freeBytes >= minFreeBytes }
  })

const canStore = async (storage: Storage): Promise<boolean> => {
  try {
    await storage.check()
    return true
  } catch (error) {
    if (error instanceof StorageFull || error instanceof StorageUnavailable) return false
    throw error
  }
}
