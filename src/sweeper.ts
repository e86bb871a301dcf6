import type { FastifyBaseLogger } from 'fastify'
import { resealSecrets } from './auth/second-factor.ts'
import { removeOldAttempts } from './db/attempts.ts'
import { removeOldAuditEvents } from './db/audit.ts'
import type { Database } from './db/client.ts'
import { deleteFileDeletions, selectFileDeletions, selectUnreferenced } from './db/files.ts'
import { removeExpiredKeys } from './db/idempotency.ts'
import { removeExpiredOneTimeTokens, removeExpiredSessions } from './db/sessions.ts'
import { beginHistoryAnew, removeOldDepartures } from './db/task-changes.ts'
import { removeOldTrash } from './db/trash.ts'
import type { KeyRing } from './domain/key-ring.ts'
import type { Storage } from './storage/storage.ts'

/** Removes what nothing refers to any more: files of deleted attachments, leftovers of crashes, expired rows. */
export interface Sweeper {
  /** Removes the files of deleted attachments soon, without waiting for the next round. */
  wake(): void
  /** Resolves when a running round has ended; none begins after. */
  close(): Promise<void>
}

interface SweeperDeps {
  readonly db: Database
  readonly storage: Storage
  readonly secondFactorKeys: KeyRing
  /** For how long the audit trail is kept. */
  readonly auditDays: number
  /** For how long a deleted task can be brought back. */
  readonly trashDays: number
  readonly log: FastifyBaseLogger
}

/** The longest time that a request may take to arrive, in milliseconds. */
export const uploadTimeout = 600_000

/** A file that is younger than this, in milliseconds, may still get its row. */
const graceTime = 2 * uploadTimeout

/** For how long it is known that somebody sees a task no longer; the contract promises it. */
const departureDays = 30

const batch = 500
const roundEvery = 3_600_000

/** Starts the sweeper with a full round, and another one every hour. */
export const startSweeper = ({ log, ...deps }: SweeperDeps): Sweeper => {
  const { db, storage } = deps
  let running: Promise<void> = Promise.resolve()
  let closed = false

  const enqueue = (work: () => Promise<void>): void => {
    running = runAfter(running, work)
  }

  const runAfter = async (before: Promise<void>, work: () => Promise<void>): Promise<void> => {
    await before
    if (closed) return
    try {
      await work()
    } catch (error) {
      log.warn({ err: error }, 'The sweeper could not finish; it will try again')
    }
  }

  enqueue(() => beginHistoryAnew(db))
  enqueue(() => sweep(deps))
  const timer = setInterval(() => enqueue(() => sweep(deps)), roundEvery)
  timer.unref()

  return {
    wake: () => enqueue(() => removeDeletedFiles(db, storage)),
    async close() {
      closed = true
      clearInterval(timer)
      await running
    },
  }
}

/** One full round. */
export const sweep = async ({
  db,
  storage,
  secondFactorKeys,
  auditDays,
  trashDays,
}: Omit<SweeperDeps, 'log'>): Promise<void> => {
  await removeOldTrash(db, trashDays)
  await removeOldDepartures(db, departureDays)
  await removeDeletedFiles(db, storage)
  await removeOrphans(db, storage)
  await storage.removeAbandoned(new Date(Date.now() - graceTime))
  await removeExpiredSessions(db, {})
  await removeExpiredKeys(db, {})
  await removeExpiredOneTimeTokens(db, {})
  await removeOldAttempts(db, {})
  await removeOldAuditEvents(db, { days: auditDays })
  await resealSecrets(db, secondFactorKeys)
}

/** Empties the outbox: the file first, so that a crash in between only repeats its removal. */
const removeDeletedFiles = async (db: Database, storage: Storage): Promise<void> => {
  for (;;) {
    const keys = await selectFileDeletions(db, batch)
    if (keys.length === 0) return
    for (const key of keys) await storage.remove(key)
    await deleteFileDeletions(db, keys)
  }
}

/** Removes files that never got a row. */
const removeOrphans = async (db: Database, storage: Storage): Promise<void> => {
  const youngest = Date.now() - graceTime
  let keys: string[] = []
  const removeBatch = async (): Promise<void> => {
    for (const key of await selectUnreferenced(db, keys)) await storage.remove(key)
    keys = []
  }
  for await (const { key, modifiedAt } of storage.list()) {
    if (modifiedAt.getTime() < youngest) keys.push(key)
    if (keys.length >= batch) await removeBatch()
  }
  await removeBatch()
}
