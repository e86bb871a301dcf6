import cluster from 'node:cluster'
import { inspect } from 'node:util'
import { ConfigError, readConfig, readLogFormat, unknownSettings } from '../config/config.ts'
import { FolderUnusable } from '../data-dir/folder.ts'
import { CommandInterrupted } from '../data-dir/interrupted.ts'
import { DiskFull } from '../data-dir/disk-space.ts'
import { FolderInUse } from '../data-dir/lock.ts'
import { DatabaseUnsuitable } from '../db/engine/errors.ts'
import { PostgresFailed, PostgresUnusable } from '../postgres/binaries.ts'
import { createProcessLog } from './log.ts'
import { AddressUnavailable } from './own-host.ts'
import { isWorker, WorkerFailed } from './supervisor.ts'

/** Shutdown hooks. They run in reverse order of registration. */
const shutdownHooks: (() => Promise<unknown>)[] = []

/**
 * SIGHUP is sent when the terminal closes. Under nohup it should be ignored, but Node resets its disposition, and without a
 * handler the process would end immediately.
 */
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Milliseconds after the first signal during which further signals are ignored: a terminal sends Ctrl-C to npm and to this
 * process, and npm forwards it as well.
 */
const repeatedSignalDelay = 1_000

// The reader of the log may be gone, or its disk full. The service continues without a log.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

const log = createProcessLog(readLogFormat(), { worker: cluster.worker?.id ?? null })

/** EX_CONFIG of sysexits.h: another start fails in the same way. deploy/systemd excludes it from restarts. */
const configurationStatus = 78

/** Logs a fatal error and exits. The stack is omitted for errors that the operator can fix. */
const fail = (error: unknown, hint = ''): never => {
  const message = error instanceof Error ? error.message : inspect(error)
  const needsOperator = isMisconfigured(error)
  log.fatal(
    hint === '' ? message : `${message.replace(/\.$/, '')}. ${hint}`,
    needsOperator || isOperational(error) ? undefined : error,
  )
  process.exit(needsOperator ? configurationStatus : 1)
}
process.on('uncaughtException', (error) => fail(error))

// Node's own listener prints text.
process.removeAllListeners('warning')
process.on('warning', ({ name, message }) => log.warn(`${name}: ${message}`))

/** Whether an error remains until an operator changes something. */
const isMisconfigured = (error: unknown): boolean =>
  error instanceof ConfigError ||
  error instanceof FolderUnusable ||
  error instanceof CommandInterrupted ||
  error instanceof PostgresUnusable ||
  error instanceof DatabaseUnsuitable ||
  (error instanceof WorkerFailed && error.exitCode === configurationStatus)

/** Whether an error is caused by the system, or was logged by a worker. */
const isOperational = (error: unknown): boolean =>
  error instanceof FolderInUse ||
  error instanceof AddressUnavailable ||
  error instanceof DiskFull ||
  error instanceof PostgresFailed ||
  error instanceof WorkerFailed ||
  (error instanceof Error && 'syscall' in error)

/** What to do after a start that failed. */
const doctorHint = '"npm run doctor" checks the configuration and everything that the service depends on'

const stopping = new AbortController()

const run = async (): Promise<void> => {
  const config = readConfig()
  const worker = isWorker(config) ? (cluster.worker?.id ?? null) : null
  // In a worker, these lines would repeat what the supervisor logs.
  const info = worker === null ? log.info : () => undefined
  if (worker === null) for (const warning of unknownSettings()) log.warn(warning)
  onStopSignals({ deadline: config.shutdownSeconds, info, isWorker: worker !== null })
  // Imported late, so that an invalid configuration is reported without loading the service.
  const { start } = await import('./start.ts')
  try {
    await start(config, {
      info,
      warn: log.warn,
      onShutdown: (close) => void shutdownHooks.push(close),
      fail,
      stopping: stopping.signal,
      worker,
    })
  } catch (error) {
    // A stop during the start makes the start fail.
    if (stopping.signal.aborted) return
    throw error
  }
}

/** Runs the shutdown hooks, and ends the process when they take longer than `deadline` seconds. */
const stop = async (deadline: number): Promise<void> => {
  setTimeout(() => fail(new Error('shutdown timed out')), deadline * 1_000).unref()
  stopping.abort()
  for (const close of shutdownHooks.toReversed()) await close()
}

interface StopOptions {
  /** Seconds. */
  readonly deadline: number
  readonly info: (message: string) => void
  readonly isWorker: boolean
}

/**
 * The first signal stops the process gracefully, a second one immediately. A worker ignores further signals: the supervisor
 * kills it on its own exit, and may forward a signal that the worker has already received.
 */
const onStopSignals = ({ deadline, info, isWorker }: StopOptions): void => {
  let firstAt: number | null = null
  const stopBySignal = async (signal: string): Promise<never> => {
    info(`stopping after ${signal}; finishing open requests (send it again to stop immediately)`)
    await stop(deadline)
    info('stopped')
    process.exit(0)
  }
  const onSignal = (signal: string): void => {
    if (firstAt === null) {
      firstAt = performance.now()
      stopBySignal(signal).catch((error: unknown) => fail(error))
    } else if (!isWorker && performance.now() - firstAt > repeatedSignalDelay) {
      process.exit(130)
    }
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
}

run().catch(async (error: unknown) => {
  for (const close of shutdownHooks.toReversed()) await close().catch(() => undefined)
  // A worker has named it already.
  fail(error, error instanceof WorkerFailed ? '' : doctorHint)
})
