import cluster from 'node:cluster'
import { inspect } from 'node:util'
import { WorkerFailed } from './workers/primary.ts'
import { isWorker } from './workers/worker.ts'
import { ConfigError, readConfig, readLogFormat } from '../config/config.ts'
import { DiskFull, FolderInUse } from '../db/engine/embedded.ts'
import { SchemaUnknown } from '../db/engine/errors.ts'
import { createProcessLog } from './log.ts'

/** Runs when the process ends, the last first. */
const closers: (() => Promise<unknown>)[] = []

/**
 * The last is that of a terminal that is closed. That it was to be ignored (nohup) cannot be seen any more: Node has
 * undone it, and without a handler would end at once.
 */
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Milliseconds after the first signal in which more of them mean nothing: a terminal sends Ctrl-C to npm and to this
 * process, and npm passes it on.
 */
const echo = 1_000

// Whoever reads them may be gone, or their disk be full: the service goes on without.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

const log = createProcessLog(readLogFormat(), { worker: cluster.worker?.id ?? null })

/** Ends the process and reports why: in one line what an operator can mend, with the stack what only a developer can. */
const fail = (error: unknown): never => {
  log.fatal(error instanceof Error ? error.message : inspect(error), isOperational(error) ? undefined : error)
  process.exit(1)
}
process.on('uncaughtException', fail)

// Node's own listener prints text.
process.removeAllListeners('warning')
process.on('warning', ({ name, message }) => log.warn(`${name}: ${message}`))

/** Bad configuration, a folder in use, foreign tables, a full disk, what a worker has reported already, and errors of the system. */
const isOperational = (error: unknown): boolean =>
  error instanceof ConfigError ||
  error instanceof FolderInUse ||
  error instanceof SchemaUnknown ||
  error instanceof DiskFull ||
  error instanceof WorkerFailed ||
  (error instanceof Error && 'syscall' in error)

const stopping = new AbortController()

const run = async (): Promise<void> => {
  const config = readConfig()
  const { shutdownSeconds } = config
  if (isWorker(config)) leaveSignalsToPrimary()
  else onSignals(shutdownSeconds)
  // A configuration that is refused needs nothing of it.
  const { start } = await import('./start.ts')
  try {
    await start(config, {
      // The primary tells what is true of all workers.
      say: isWorker(config) ? () => undefined : log.info,
      warn: log.warn,
      atEnd: (close) => void closers.push(close),
      fail,
      stopping: stopping.signal,
      stop: () => void stop(shutdownSeconds).then(() => process.exit(0), fail),
    })
  } catch (error) {
    // What waited was told to stop, which goes on elsewhere.
    if (stopping.signal.aborted) return
    throw error
  }
}

/** Ends the process when all is closed, within `deadline` seconds. */
const stop = async (deadline: number): Promise<void> => {
  setTimeout(() => fail(new Error('shutdown timed out')), deadline * 1_000).unref()
  stopping.abort()
  for (const close of closers.toReversed()) await close()
}

/** The first signal stops the process cleanly, within `deadline` seconds; another one at once. */
const onSignals = (deadline: number): void => {
  let since: number | null = null
  const stopBySignal = async (signal: string): Promise<never> => {
    log.info(`stopping after ${signal}; finishing open requests (send it again to stop immediately)`)
    await stop(deadline)
    log.info('stopped')
    process.exit(0)
  }
  const onSignal = (signal: string): void => {
    if (since === null) {
      since = performance.now()
      stopBySignal(signal).catch(fail)
    } else if (performance.now() - since > echo) {
      process.exit(130)
    }
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
}

/** A terminal and a service manager signal all processes, and the primary knows what to do. */
const leaveSignalsToPrimary = (): void => {
  for (const signal of stopSignals) process.on(signal, () => undefined)
}

run().catch(async (error: unknown) => {
  for (const close of closers.toReversed()) await close().catch(() => undefined)
  fail(error)
})
