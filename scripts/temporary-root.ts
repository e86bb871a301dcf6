import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

/**
 * Where tests keep what they create and remove all the time: in memory where there is enough, because a disk takes as long for
 * that as for the rest of a test, and much longer when others write to it. TMPDIR overrides it.
 */
export function temporaryRoot(): string {
  const inMemory = '/dev/shm'
  const minFree = 2 * 1024 ** 3
  if (process.env.TMPDIR !== undefined || !existsSync(inMemory)) return tmpdir()
  const { bavail, bsize } = statfsSync(inMemory)
  return bavail * bsize >= minFree ? inMemory : tmpdir()
}
