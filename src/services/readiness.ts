import { memoizeFor } from '../concurrency/memoize.ts'
import type { Database } from '../db/engine/client.ts'
import { checkConnection } from '../db/engine/health.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../storage/storage.ts'

/**
 * Checks the dependencies of the service. Without the file storage, it still serves everything except attachments.
 *
 * @throws DatabaseUnavailable
 */
export type CheckReadiness = () => Promise<{ readonly isStorageReady: boolean }>

interface Deps {
  readonly db: Database
  readonly storage: Storage
  /** Milliseconds for which a result is cached, because the check writes a file and needs no authentication. */
  readonly readinessTime: number
}

export const createCheckReadiness = ({ db, storage, readinessTime }: Deps): CheckReadiness =>
  memoizeFor(readinessTime, async () => {
    const [isStorageReady] = await Promise.all([canStore(storage), checkConnection(db)])
    return { isStorageReady }
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
