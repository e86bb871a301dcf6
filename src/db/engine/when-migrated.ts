import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from './client.ts'
import type { ConnectionOptions } from './connection.ts'
import { DatabaseUnavailable, SchemaPending } from './errors.ts'
import { migrate } from './migrate.ts'

interface Waiting {
  readonly log: { warn(message: string): void }
  /** Ends the waiting. */
  readonly signal: AbortSignal
}

/** Milliseconds between two attempts: the first pause, and the longest. */
const firstPause = 250
const maxPause = 5_000

/** The same fault is told again after this many attempts. */
const tellEvery = 12

/**
 * Brings the schema up to date as soon as the database can be used, however long that takes: it may start after the
 * service, and what is wrong with it can be mended meanwhile.
 *
 * @throws whatever else goes wrong: a migration that fails would fail again
 */
export const migrateWhenPossible = async (
  connection: ConnectionOptions,
  { log, signal }: Waiting,
): Promise<void> => {
  const stopped = rejectedBy(signal)
  let told = ''
  for (let attempt = 0; ; attempt += 1) {
    try {
      const unknown = await Promise.race([migrate(connection), stopped])
      if (unknown > 0)
        log.warn(
          `The database has ${unknown} migrations from a newer version of Taskwright; this version can use it only during a rolling upgrade`,
        )
      return
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error
      if (error.message !== told || attempt % tellEvery === 0)
        log.warn(`${error.message}; retrying until it is available`)
      told = error.message
    }
    const length = Math.min(firstPause * 2 ** Math.min(attempt, 10), maxPause)
    await Promise.race([pause(length, undefined, { ref: false }), stopped])
  }
}

/** Rejects when the signal is aborted, with its reason. */
const rejectedBy = (signal: AbortSignal): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => undefined)
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  return promise
}

/**
 * What a database is until it is `migrated`: one that refuses statements, or one that holds them back until then, or until
 * the service stops.
 */
export const untilMigrated = (
  db: Database,
  migrated: Promise<void>,
  signal: AbortSignal,
): { readonly refusing: Database; readonly waiting: Database } => {
  const stopped = rejectedBy(signal)
  let isMigrated = false
  migrated.then(
    () => (isMigrated = true),
    () => undefined,
  )
  return {
    refusing: {
      ...db,
      run: (...parameters) => (isMigrated ? db.run(...parameters) : Promise.reject(new SchemaPending())),
    },
    waiting: {
      ...db,
      async run(...parameters) {
        await Promise.race([migrated, stopped])
        return db.run(...parameters)
      },
    },
  }
}
