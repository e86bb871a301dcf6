import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as pause } from 'node:timers/promises'
import { removeOldAttempts } from '../db/attempts.ts'
import { removeOldAuditEvents } from '../db/audit.ts'
import { DatabaseUnavailable } from '../db/engine/errors.ts'
import { removeExpiredKeys } from '../db/engine/idempotency.ts'
import { newId } from '../db/engine/ids.ts'
import { takeLease, withLease } from '../db/leases.ts'
import { removeExpiredOneTimeTokens } from '../db/one-time-tokens.ts'
import { removeSpentRefreshTokens } from '../db/refresh-tokens.ts'
import { removeExpiredSessions } from '../db/sessions.ts'
import { purgeDeleted } from '../db/purge.ts'
import { removeOldTombstones } from '../db/task-changes.ts'
import { removeOldTrash } from '../db/trash.ts'
import { removeExpiredUploads } from '../db/uploads.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { resealSecrets } from './reseal-secrets.ts'
import {
  type FileDeps,
  recognizeFiles,
  removeDeletedFiles,
  removeOrphans,
  removeUnfinishedOrphans,
  reportLostFiles,
} from './stored-files.ts'

/** Removes obsolete data: files of deleted attachments, orphans of crashes, expired rows. */
export interface Sweeper {
  /** Removes deleted files, and the remaining data of deleted tags and users, without waiting for the next round. */
  wake(): void
  /** Stops, and resolves after the current file or batch. */
  close(): Promise<void>
}

/** In milliseconds. */
export interface SweepTimes {
  /** Interval between the starts of two rounds. */
  readonly round: number
  /** Minimum age of an orphan. A younger file without a row may still get one. */
  readonly grace: number
  /** Delay before the removal of a file is retried, after a failure or a crash. */
  readonly retry: number
  /** Lease TTL: how long a crashed instance can block the rounds of the others. */
  readonly lease: number
}

export interface SweeperDeps extends FileDeps {
  readonly secondFactorKeys: KeyRing
  /** Retention of the audit trail. */
  readonly auditDays: number
  /** Retention of the trash. */
  readonly trashDays: number
  /** Overridden by tests. */
  readonly times?: SweepTimes | undefined
}

/** Time limit for receiving a request, in milliseconds. */
export const uploadTimeout = 600_000

export const sweepTimes: SweepTimes = {
  round: 3_600_000,
  grace: 2 * uploadTimeout,
  retry: 60_000,
  lease: 30_000,
}

/** Retention of tombstones. The contract promises it. */
const tombstoneDays = 30

/**
 * Starts the sweeper with a full round, which repeats every hour. A lease prevents concurrent rounds of several instances.
 * All instances process the queue of deleted files.
 */
export const startSweeper = (deps: SweeperDeps): Sweeper => {
  const { db, log, times = sweepTimes } = deps
  const holder = newId()
  const deletedFiles = repeat(
    (stop) => removeDeletedFiles(deps, { retryAfter: times.retry, stop }),
    times.retry,
    log,
  )
  const purges = repeat(
    async (stop) => {
      await purgeDeleted(db, stop)
      deletedFiles.wake()
    },
    times.retry,
    log,
  )
  const rounds = repeat(
    async (stop) => {
      const lease = { name: 'sweep', holder, duration: times.lease }
      while (!(await takeLease(db, lease))) {
        await pause(times.lease / 10, undefined, { ref: false, signal: stop })
      }
      await withLease(db, lease, stop, (stop) => sweep(deps, stop))
    },
    times.round,
    log,
  )
  return {
    wake() {
      deletedFiles.wake()
      purges.wake()
    },
    async close() {
      await Promise.all([deletedFiles.close(), purges.close(), rounds.close()])
    },
  }
}

interface RepeatedTask {
  /** Runs the task after the current run. */
  readonly wake: () => void
  readonly close: () => Promise<void>
}

/** Runs a task now, every `interval` milliseconds, and on demand; one run at a time. */
const repeat = (
  task: (stop: AbortSignal) => Promise<void>,
  interval: number,
  log: FastifyBaseLogger,
): RepeatedTask => {
  const stop = new AbortController()
  let running: Promise<void> = Promise.resolve()
  let isWaiting = false

  const runAfter = async (before: Promise<void>): Promise<void> => {
    await before
    isWaiting = false
    try {
      if (!stop.signal.aborted) await task(stop.signal)
    } catch (error) {
      if (!stop.signal.aborted && !isExpected(error))
        log.warn({ err: error }, 'The sweep failed and will be retried')
    }
  }

  const wake = (): void => {
    if (isWaiting) return
    isWaiting = true
    running = runAfter(running)
  }

  wake()
  const timer = setInterval(wake, interval)
  timer.unref()

  return {
    wake,
    async close() {
      stop.abort()
      clearInterval(timer)
      await running
    },
  }
}

/** Whether the database is unavailable, which is logged elsewhere, or the service is stopping. */
const isExpected = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable || (error instanceof Error && error.name === 'AbortError')

/** One full round. A step that fails does not stop the next, unless the database is unavailable. */
export const sweep = async (
  deps: SweeperDeps,
  stop: AbortSignal = new AbortController().signal,
): Promise<void> => {
  const { db, secondFactorKeys, auditDays, trashDays, log, times = sweepTimes } = deps
  const orphans = { before: new Date(Date.now() - times.grace), stop }
  const steps: readonly (() => Promise<unknown>)[] = [
    () => recognizeFiles(deps),
    () => removeOldTrash(db, trashDays),
    () => removeOldTombstones(db, tombstoneDays),
    () => removeExpiredUploads(db, {}),
    () => removeDeletedFiles(deps, { retryAfter: times.retry, stop }),
    () => removeOrphans(deps, orphans),
    () => removeUnfinishedOrphans(deps, orphans),
    () => reportLostFiles(deps, { stop }),
    () => removeExpiredSessions(db, {}),
    () => removeSpentRefreshTokens(db, {}),
    () => removeExpiredKeys(db, {}),
    () => removeExpiredOneTimeTokens(db, {}),
    () => removeOldAttempts(db, {}),
    () => removeOldAuditEvents(db, { days: auditDays }),
    () => resealSecrets(db, secondFactorKeys),
  ]
  for (const step of steps) {
    if (stop.aborted) return
    try {
      await step()
    } catch (error) {
      // The remaining steps would fail too.
      if (isExpected(error)) return
      log.warn({ err: error }, 'A step of the sweep failed and will be retried in the next round')
    }
  }
}
