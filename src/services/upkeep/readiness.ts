import { memoizeFor } from '../../concurrency/memoize.ts'
import type { Database } from '../../db/engine/client.ts'
import { freeBytesOf } from '../../data-dir/disk-space.ts'
import { checkConnection } from '../../db/shared/health.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../../storage/storage.ts'

/**
 * Checks the dependencies of the service. Without the file storage, it still serves everything except attachments.
 *
 * @throws DatabaseUnavailable
 */
export type CheckReadiness = () => Promise<{
  readonly isStorageReady: boolean
  /** Whether the database of the service has room for writes; another server is not examined. */
  readonly hasRoom: boolean
}>

/** Where the database of the service is. */
export interface OwnDatabase {
  readonly folder: string
  readonly minFreeBytes: number
}

interface Deps {
  readonly db: Database
  /** The folder of the database that the service has started, and the free space without which it refuses writes; null with a server. */
  readonly ownDatabase: OwnDatabase | null
  readonly storage: Storage
  /** Milliseconds for which a result is cached, because the check writes a file and needs no authentication. */
  readonly readinessTime: number
}

export const createCheckReadiness = ({ db, ownDatabase, storage, readinessTime }: Deps): CheckReadiness =>
  memoizeFor(readinessTime, async () => {
    // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
    const [isStorageReady, freeBytes] = await Promise.all([
      canStore(storage),
      ownDatabase === null ? Infinity : freeBytesOf(ownDatabase.folder).catch(() => Infinity),
      checkConnection(db),
    ])
    return { isStorageReady, hasRoom: freeBytes >= (ownDatabase?.minFreeBytes ?? 0) }
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
