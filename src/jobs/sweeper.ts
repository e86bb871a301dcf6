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
import { removeOldDepartures } from '../db/task-changes.ts'
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

/** Removes what nothing refers to any more: files of deleted attachments, leftovers of crashes, expired rows. */
export interface Sweeper {
  /** Removes what deleted tags and users leave behind, and deleted files, without waiting for the next round. */
  wake(): void
  /** Resolves when what is running has stopped, which it does at its next file; nothing begins after. */
  close(): Promise<void>
}

/** In milliseconds. */
export interface SweepTimes {
  /** From the start of one round to that of the next. */
  readonly round: number
  /** A file that is younger may still get its row. */
  readonly grace: number
  /** After which a file whose removal failed, or was begun by a process that crashed, is tried again. */
  readonly retry: number
  /** After which an instance that crashed in a round keeps the others from theirs no longer. */
  readonly lease: number
}

export interface SweeperDeps extends FileDeps {
  readonly secondFactorKeys: KeyRing
  /** For how long the audit trail is kept. */
  readonly auditDays: number
  /** For how long a deleted task can be brought back. */
  readonly trashDays: number
  /** The usual ones, unless a test has less time. */
  readonly times?: SweepTimes | undefined
}

/** The longest time that a request may take to arrive, in milliseconds. */
export const uploadTimeout = 600_000

export const sweepTimes: SweepTimes = {
  round: 3_600_000,
  grace: 2 * uploadTimeout,
  retry: 60_000,
  lease: 30_000,
}

/** For how long it is known that somebody sees a task no longer; the contract promises it. */
const departureDays = 30

/**
 * Starts the sweeper with a full round, and another one every hour. Of all instances on one database one at a time does
 * a round. All of them empty the queue of deleted files, each file by one.
 */
export const startSweeper = (deps: SweeperDeps): Sweeper => {
  const { db, log, times = sweepTimes } = deps
  const holder = newId()
  const deletedFiles = startWorker(
    (stop) => removeDeletedFiles(deps, { retryAfter: times.retry, stop }),
    times.retry,
    log,
  )
  const purges = startWorker(
    async (stop) => {
      await purgeDeleted(db, stop)
      deletedFiles.wake()
    },
    times.retry,
    log,
  )
  const rounds = startWorker(
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

interface Worker {
  /** Asks for the work to be done once more, after what is running now. */
  readonly wake: () => void
  readonly close: () => Promise<void>
}

/** Does some work now, every `interval` milliseconds, and when it is woken; never twice at a time. */
const startWorker = (
  work: (stop: AbortSignal) => Promise<void>,
  interval: number,
  log: FastifyBaseLogger,
): Worker => {
  const stop = new AbortController()
  let running: Promise<void> = Promise.resolve()
  let isWaiting = false

  const runAfter = async (before: Promise<void>): Promise<void> => {
    await before
    isWaiting = false
    try {
      if (!stop.signal.aborted) await work(stop.signal)
    } catch (error) {
      if (!stop.signal.aborted && !isNoNews(error))
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

/** The database is away, which is told of elsewhere, or the service stops. */
const isNoNews = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable || (error instanceof Error && error.name === 'AbortError')

/** One full round. A step that fails does not keep the others, unless there is no database. */
export const sweep = async (
  deps: SweeperDeps,
  stop: AbortSignal = new AbortController().signal,
): Promise<void> => {
  const { db, secondFactorKeys, auditDays, trashDays, log, times = sweepTimes } = deps
  const orphans = { before: new Date(Date.now() - times.grace), stop }
  const steps: readonly (() => Promise<unknown>)[] = [
    () => recognizeFiles(deps),
    () => removeOldTrash(db, trashDays),
    () => removeOldDepartures(db, departureDays),
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
      // No other step could be done either.
      if (isNoNews(error)) return
      log.warn({ err: error }, 'A step of the sweep failed and will be retried in the next round')
    }
  }
}
