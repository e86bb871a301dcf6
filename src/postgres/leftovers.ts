import { execFile } from 'node:child_process'
import { readlink, realpath, rm } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { FolderInUse } from '../data-dir/lock.ts'
import { pidFile, postgresFolder, readPidFile } from './cluster.ts'
import { isLockFree, type Launcher, lockFile } from './launch.ts'

/** Seconds that a PostgreSQL may take for each way of ending it, and that one may take which is already stopping. */
const patience = 10

/** Milliseconds, where the end of a process can only be polled. */
const pollInterval = 100

/**
 * Ends a PostgreSQL that an earlier process of the service left behind. It is never used: whether its parent is alive, and what its
 * settings are, is unknown. Afterwards no process has the folder open. The caller holds the lock of DATA_DIR.
 *
 * @throws FolderInUse when it runs where this process cannot end it, as in another container
 */
export const endLeftovers = async (dataDir: string, launcher: Launcher, log: Log): Promise<void> => {
  const leftover = await readPidFile(dataDir)
  const hasEnded = launcher.hasLocks
    ? (seconds: number) => isLockFree(lockFile(dataDir), seconds)
    : async (seconds: number) => leftover === null || hasProcessEnded(dataDir, leftover.pid, seconds)
  if (!(await hasEnded(0))) {
    log.warn('PostgreSQL of an earlier process of the service still runs; ending it')
    await end(dataDir, leftover?.pid ?? null, hasEnded)
  }
  // Otherwise PostgreSQL does not start if the id now belongs to another process.
  await rm(pidFile(dataDir), { force: true })
}

interface Log {
  warn(message: string): void
}

const end = async (
  dataDir: string,
  pid: number | null,
  hasEnded: (seconds: number) => Promise<boolean>,
): Promise<void> => {
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    // Each time anew: the id may have been given to another process.
    if (pid === null || !(await isPostgres(dataDir, pid))) break
    process.kill(pid, signal)
    if (await hasEnded(patience)) return
  }
  if (!(await hasEnded(patience))) throw new FolderInUse(dataDir)
}

const hasProcessEnded = async (dataDir: string, pid: number, seconds: number): Promise<boolean> => {
  for (const deadline = performance.now() + seconds * 1_000; ; await pause(pollInterval)) {
    if (!(await isPostgres(dataDir, pid))) return true
    if (performance.now() >= deadline) return false
  }
}

/** Whether a process is PostgreSQL in the folder of DATA_DIR. */
const isPostgres = async (dataDir: string, pid: number): Promise<boolean> => {
  const folder = await realpath(postgresFolder(dataDir))
  try {
    // It works in its data folder.
    if (process.platform === 'linux') return (await readlink(`/proc/${pid}/cwd`)) === folder
    const { stdout } = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)])
    return stdout.includes('postgres') && stdout.includes(postgresFolder(dataDir))
  } catch {
    return false
  }
}
