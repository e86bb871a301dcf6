import { writes } from '../../concurrency/work.ts'
import { memoizeFor } from '../../concurrency/memoize.ts'
import type { Database } from './client.ts'
import { freeBytesOf } from '../../data-dir/disk-space.ts'
import { WritesRefused } from './errors.ts'

/** Milliseconds for which a look at the disk counts. */
const lookInterval = 1_000

/**
 * Refuses statements that write, and transactions, while the disk of a folder has fewer than `minFreeBytes` of free space. PostgreSQL
 * itself ends all sessions when its write-ahead log has no room, and does not start again before there is some.
 */
export const refuseWritesBelow = (minFreeBytes: number, folder: string, db: Database): Database => {
  const freeBytes = memoizeFor(lookInterval, () => freeBytesOf(folder).catch(() => Infinity))
  const expectRoom = async (): Promise<void> => {
    if ((await freeBytes()) < minFreeBytes) throw new WritesRefused({ cause: new Error('its disk is full') })
  }
  return {
    ...db,
    async run(...statement) {
      if (writes(statement[0])) await expectRoom()
      return db.run(...statement)
    },
    async transaction(...parameters) {
      await expectRoom()
      return db.transaction(...parameters)
    },
  }
}
