import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

/**
 * The folder for temporary files of tests: in memory if there is enough, because creating and deleting them on a disk takes as long
 * as the rest of a test, and much longer if other processes write to the disk. TMPDIR overrides it.
 */
export function temporaryRoot(): string {
  const inMemory = '/dev/shm'
  const minFree = 2 * 1024 ** 3
  if (process.env.TMPDIR !== undefined || !existsSync(inMemory)) return tmpdir()
  const { bavail, bsize } = statfsSync(inMemory)
  return bavail * bsize >= minFree ? inMemory : tmpdir()
}
