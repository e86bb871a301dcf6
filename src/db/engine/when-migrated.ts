import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from './client.ts'
import type { ServerConnection } from './connection.ts'
import { SchemaPending, TemporaryFailure } from './errors.ts'
import { migrate } from './migrate.ts'

interface WaitOptions {
  /** Runs after the migration and before requests are served. Retried in the same way. */
  readonly prepare: () => Promise<void>
  readonly log: { info(message: string): void; warn(message: string): void }
  /** Stops waiting when aborted. */
  readonly signal: AbortSignal
}

/** Milliseconds between attempts: exponential backoff from `firstPause` to `maxPause`. */
const firstPause = 250
const maxPause = 5_000

/** An unchanged error is logged again after this many attempts. */
const logEvery = 12

/**
 * Migrates the schema as soon as the database is available, and retries until then: the database may start after the
 * service, or an operator may still be fixing it.
 *
 * @throws any error other than a TemporaryFailure, since a failed migration would fail again
 */
export const migrateWhenPossible = async (
  connection: ServerConnection,
  { prepare, log, signal }: WaitOptions,
): Promise<void> => {
  const stopped = rejectedBy(signal)
  const onPending = (): void => log.info('migrating the database schema')
  let lastMessage = ''
  for (let attempt = 0; ; attempt += 1) {
    try {
      const unknown = await Promise.race([migrate(connection, { onPending }), stopped])
      if (unknown > 0)
        log.warn(
          `The database has ${unknown} migrations from a newer version of Taskwright; this version can use it only during a rolling upgrade`,
        )
      await Promise.race([prepare(), stopped])
      return
    } catch (error) {
      if (!(error instanceof TemporaryFailure)) throw error
      if (error.message !== lastMessage || attempt % logEvery === 0)
        log.warn(`${error.message}; retrying until it is available`)
      lastMessage = error.message
    }
    const length = Math.min(firstPause * 2 ** Math.min(attempt, 10), maxPause)
    await Promise.race([pause(length, undefined, { ref: false }), stopped])
  }
}

/** Rejects with the signal's reason when it is aborted. */
const rejectedBy = (signal: AbortSignal): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => undefined)
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  return promise
}

/**
 * Wraps a database until it is `migrated`. `refusing` rejects statements with SchemaPending. `waiting` delays them until
 * the migration ends, or rejects them when the service stops or the migration fails, which its caller reports.
 */
export const untilMigrated = (
  db: Database,
  migrated: Promise<void>,
  signal: AbortSignal,
): { readonly refusing: Database; readonly waiting: Database } => {
  const stopped = rejectedBy(signal)
  let isMigrated = false
  const ready = migrated.then(
    () => void (isMigrated = true),
    () => Promise.reject(new SchemaPending()),
  )
  ready.catch(() => undefined)
  const refuseBefore = async (): Promise<void> => {
    if (!isMigrated) throw new SchemaPending()
  }
  // One race for all statements: each would stay among those that `stopped` settles, for as long as the service runs.
  const readyOrStopped = Promise.race([ready, stopped])
  readyOrStopped.catch(() => undefined)
  const waitBefore = (): Promise<void> => readyOrStopped
  return { refusing: after(refuseBefore, db), waiting: after(waitBefore, db) }
}

/** The database, with `check` before each statement or transaction. */
const after = (check: () => Promise<void>, db: Database): Database => ({
  ...db,
  async run(...parameters) {
    await check()
    return db.run(...parameters)
  },
  async transaction(...parameters) {
    await check()
    return db.transaction(...parameters)
  },
})
