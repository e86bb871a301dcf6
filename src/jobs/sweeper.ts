import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as pause } from 'node:timers/promises'
import { resealSecrets } from '../auth/second-factor.ts'
import { removeOldAttempts } from '../db/attempts.ts'
import { removeOldAuditEvents } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { DatabaseUnavailable } from '../db/engine/errors.ts'
import { claimFileDeletions, type DeletedFile, deleteFileDeletions } from '../db/files.ts'
import { removeExpiredKeys } from '../db/engine/idempotency.ts'
import { newId } from '../db/engine/ids.ts'
import { takeLease, withLease } from '../db/leases.ts'
import { removeExpiredOneTimeTokens, removeExpiredSessions } from '../db/sessions.ts'
import { purgeDeleted } from '../db/purge.ts'
import { noteOrigin, removeOldDepartures } from '../db/task-changes.ts'
import { removeOldTrash } from '../db/trash.ts'
import { removeExpiredUploads } from '../db/uploads.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from './inventory.ts'
import { claimFiles, ownershipOf, whyNotOurs } from './ownership.ts'
import type { ListedFile, Storage } from '../storage/storage.ts'

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

export interface SweeperDeps {
  readonly db: Database
  readonly storage: Storage
  readonly secondFactorKeys: KeyRing
  /** For how long the audit trail is kept. */
  readonly auditDays: number
  /** For how long a deleted task can be brought back. */
  readonly trashDays: number
  readonly log: FastifyBaseLogger
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

/** How many files are taken out of the outbox at a time. */
const batch = 500

/** How many attachments without a file a round names in the log. */
const mostReported = 100

/**
 * Starts the sweeper with a full round, and another one every hour. Of all instances on one database one at a time does
 * a round. The outbox is emptied by all of them, each file by one.
 */
export const startSweeper = (deps: SweeperDeps): Sweeper => {
  const { db, log, times = sweepTimes } = deps
  const holder = newId()
  const outbox = startWorker((stop) => removeDeletedFiles(deps, stop), times.retry, log)
  const purges = startWorker(
    async (stop) => {
      await purgeDeleted(db, stop)
      outbox.wake()
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
      outbox.wake()
      purges.wake()
    },
    async close() {
      await Promise.all([outbox.close(), purges.close(), rounds.close()])
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
        log.warn({ err: error }, 'The sweeper could not finish; it will try again')
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
  const { db, storage, secondFactorKeys, auditDays, trashDays, log, times = sweepTimes } = deps
  const before = new Date(Date.now() - times.grace)
  const steps: readonly (() => Promise<unknown>)[] = [
    () => recognizeFiles(deps),
    () => removeOldTrash(db, trashDays),
    () => removeOldDepartures(db, departureDays),
    () => removeExpiredUploads(db, {}),
    () => removeDeletedFiles(deps, stop),
    () => removeOrphans(deps, storage.list(), { before, isUnfinished: false }, stop),
    () => removeOrphans(deps, storage.listUnfinished(), { before, isUnfinished: true }, stop),
    () => reportLostFiles(deps, stop),
    () => removeExpiredSessions(db),
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
      log.warn({ err: error }, 'The sweeper could not finish a step; the next round will try again')
    }
  }
}

/** Has the storage say that its files are ours, and how far the database has come; or says why they are not. */
const recognizeFiles = async ({ db, storage, log }: SweeperDeps): Promise<void> => {
  const reason = whyNotOurs(await ownershipOf(db, storage))
  const identity = await noteOrigin(db)
  if (reason === null) await claimFiles(storage, identity)
  else log.error(`${reason}, so none are removed; npm run doctor tells what to do`)
}

const areFilesOurs = async ({ db, storage }: SweeperDeps): Promise<boolean> =>
  whyNotOurs(await ownershipOf(db, storage)) === null

/** Empties the outbox: the file first, so that a crash in between only repeats its removal. */
const removeDeletedFiles = async (deps: SweeperDeps, stop: AbortSignal): Promise<void> => {
  const { db, times = sweepTimes } = deps
  for (let files: readonly DeletedFile[] | null = null; files === null || files.length === batch;) {
    if (stop.aborted) return
    files = await claimFileDeletions(db, { limit: batch, retryAfter: times.retry })
    if (files.length === 0 || !(await areFilesOurs(deps))) return
    const removed = await removeFiles(deps, files, stop)
    if (removed.length > 0) await deleteFileDeletions(db, removed)
  }
}

/** Removes those of the files that are old and never got a row. */
const removeOrphans = async (
  deps: SweeperDeps,
  listed: AsyncIterable<ListedFile>,
  { before, isUnfinished }: { readonly before: Date; readonly isUnfinished: boolean },
  stop: AbortSignal,
): Promise<void> => {
  if (!(await areFilesOurs(deps))) return
  for await (const files of filesWithoutRows(deps.db, listed)) {
    const old = files.filter(({ modifiedAt }) => modifiedAt < before)
    await removeFiles(
      deps,
      old.map(({ key }) => ({ key, isUnfinished })),
      stop,
    )
    if (stop.aborted) return
  }
}

/** Says which attachments have lost their file. Their rows stay: they tell what to look for in a backup. */
const reportLostFiles = async ({ db, storage, log }: SweeperDeps, stop: AbortSignal): Promise<void> => {
  let lost = 0
  for await (const ids of attachmentsWithoutFiles(db, storage)) {
    for (const id of ids.slice(0, mostReported - lost)) {
      log.warn({ attachment_id: id }, 'An attachment has lost its file')
    }
    lost += ids.length
    if (stop.aborted) return
  }
  if (lost > mostReported)
    log.warn({ lost }, 'More attachments have lost their file; storage:check lists them')
}

/** Removes files one by one, and answers with the keys of those that are gone: one that fails does not keep the others. */
const removeFiles = async (
  { storage, log }: SweeperDeps,
  files: readonly DeletedFile[],
  stop: AbortSignal,
): Promise<string[]> => {
  const removed: string[] = []
  const failures: unknown[] = []
  for (const { key, isUnfinished } of files) {
    if (stop.aborted) break
    try {
      await (isUnfinished ? storage.removeUnfinished(key) : storage.remove(key))
      removed.push(key)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) {
    log.warn(
      { err: failures[0], failed: failures.length },
      'Some files could not be removed; they are tried again',
    )
  }
  return removed
}
