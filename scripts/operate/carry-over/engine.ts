import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { ServerConnection } from '../../../src/db/engine/connection.ts'
import type { EngineInput } from './engine-worker.ts'

/** Memory that `withEngine` takes, whatever the size of the database. */
export const engineMemory = '1.3 GiB'

/**
 * Runs the PostgreSQL of 0.1 and 0.2, which is compiled to WebAssembly (PGlite), in a thread: a long statement would stop this one. The
 * folder is changed. `use` has one statement at a time.
 */
export const withEngine = async <T>(
  folder: string,
  use: (connection: ServerConnection) => Promise<T>,
): Promise<T> => {
  expectPackage()
  // Short, and only this user enters it: PGlite asks for no password.
  const sockets = await mkdtemp(join(tmpdir(), 'taskwright-carry-over-'))
  const path = join(sockets, 'socket')
  const address = process.platform === 'win32' ? { host: '127.0.0.1', port: 0 } : { path }
  const worker = new Worker(new URL('engine-worker.ts', import.meta.url), {
    workerData: { folder, address } satisfies EngineInput,
  })
  const ended = endOf(worker)
  const started = async (): Promise<T> => {
    const messages: readonly unknown[] = await Promise.race([once(worker, 'message'), ended])
    const host = 'path' in address ? '127.0.0.1' : String(messages[0])
    return use({
      url: `postgres://postgres@${host}/postgres`,
      ...('path' in address && address),
    })
  }
  const used = started()
  try {
    return await Promise.race([used, ended])
  } finally {
    await worker.terminate()
    // Without the worker, it cannot go on.
    await used.catch(() => undefined)
    await rm(sockets, { recursive: true, force: true })
  }
}

/** Rejects when a worker ends. */
const endOf = (worker: Worker): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => undefined)
  worker.once('error', reject)
  worker.once('exit', () =>
    reject(
      new Error('The database of the earlier version has ended. Mostly its disk is full: free up space'),
    ),
  )
  return promise
}

const expectPackage = (): void => {
  try {
    createRequire(import.meta.url).resolve('@electric-sql/pglite-socket')
  } catch (error) {
    throw new Error(
      'The package @electric-sql/pglite, which opens databases of 0.1 and 0.2, is not installed. "npm ci" installs it, unless optional packages are omitted',
      { cause: error },
    )
  }
}
