import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import lockfile from 'proper-lockfile'
import { FolderUnusable } from './folder.ts'
import { DiskFull, freeBytesOf } from './disk-space.ts'
import { hasCode } from './system-errors.ts'

/** Another process uses the data directory. */
export class FolderInUse extends Error {
  override readonly name = 'FolderInUse'

  constructor(dataDir: string, options?: ErrorOptions) {
    super(`DATA_DIR ${dataDir} is in use by another Taskwright process; stop the service first.`, options)
  }
}

// All in milliseconds. The lock of a killed process expires after lockStale; a start waits slightly longer
// than that.
const lockStale = 5_000
const lockUpdate = 1_000
const lockPoll = 500

const lockPath = (dataDir: string): string => join(dataDir, 'lock')

/**
 * Locks dataDir against other processes. Resolves to a function that releases the lock.
 *
 * @throws FolderInUse, DiskFull
 * @throws FolderUnusable when this process may not lock it
 */
export async function lockFolder(
  dataDir: string,
  log: { info(message: string): void },
  onCompromised: (error: Error) => void,
): Promise<() => Promise<void>> {
  const lockfilePath = lockPath(dataDir)
  const options = { lockfilePath, stale: lockStale, update: lockUpdate, onCompromised }
  const lockWhenStale = async (): Promise<() => Promise<void>> => {
    let seen: number | null = null
    let seenAt = 0
    for (let polls = 0; ; polls += 1) {
      const modified = await stat(lockfilePath).then(
        ({ mtimeMs }) => mtimeMs,
        () => null,
      )
      if (modified !== seen) [seen, seenAt] = [modified, performance.now()]
      // The library compares the time of the lock with the clock. If the clock was set back, that time is in the future.
      else if (performance.now() - seenAt >= lockStale)
        await rm(lockfilePath, { recursive: true, force: true })
      try {
        return await lockfile.lock(dataDir, options)
      } catch (error) {
        if (!hasCode(error, 'ELOCKED') || polls > lockStale / lockPoll + 2) throw error
      }
      await pause(lockPoll)
    }
  }
  try {
    const release = await lockfile.lock(dataDir, options).catch((error: unknown) => {
      if (!hasCode(error, 'ELOCKED')) throw error
      log.info(
        `DATA_DIR ${dataDir} is locked; waiting for the other process to stop, or for its lock to expire if it was killed`,
      )
      return lockWhenStale()
    })
    return () => release().catch(ignoreReleased)
  } catch (error) {
    if (hasCode(error, 'ELOCKED')) throw new FolderInUse(dataDir, { cause: error })
    if (hasCode(error, 'ENOSPC')) throw new DiskFull(dataDir, await freeBytesOf(dataDir), { cause: error })
    throw new FolderUnusable(lockfilePath, error instanceof Error ? error.message : String(error), {
      cause: error,
    })
  }
}

/**
 * Whether another process uses dataDir. Changes nothing, and waits for the next refresh of a lock: a killed process refreshes its lock no
 * more.
 */
export async function isLocked(dataDir: string): Promise<boolean> {
  const read = () =>
    stat(lockPath(dataDir)).then(
      ({ mtimeMs }) => mtimeMs,
      () => null,
    )
  const first = await read()
  if (first === null) return false
  for (let waited = 0; waited < lockStale; waited += lockPoll) {
    await pause(lockPoll)
    const now = await read()
    if (now !== first) return now !== null
  }
  return false
}

// If this process did not refresh its lock in time and another took it over, there is nothing to release.
function ignoreReleased(error: unknown): void {
  if (!hasCode(error, 'ERELEASED')) throw error
}
