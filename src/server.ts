import { ConfigError, readConfig } from './config.ts'
import { FolderInUse } from './db/embedded.ts'
import { start } from './start.ts'

/** Runs when the process ends, the last first. */
const closers: (() => Promise<unknown>)[] = []

/**
 * Milliseconds after the first signal in which more of them mean nothing: a terminal sends Ctrl-C to npm and to this
 * process, and npm passes it on.
 */
const echo = 1_000

const say = (message: string): void => console.log(`taskwright: ${message}`)

/** Ends the process with what went wrong: in a line if an operator can mend it, in full if only we can. */
const fail = (error: unknown): never => {
  if (!isOperational(error)) console.error(error)
  console.error(`taskwright: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}

/** Bad configuration, a folder in use, and what the system refuses. */
const isOperational = (error: unknown): boolean =>
  error instanceof ConfigError ||
  error instanceof FolderInUse ||
  (error instanceof Error && 'syscall' in error)

const stopping = new AbortController()

const run = async (): Promise<void> => {
  const config = readConfig()
  onSignals(config.shutdownSeconds)
  try {
    await start(config, {
      say,
      atEnd: (close) => void closers.push(close),
      fail,
      stopping: stopping.signal,
    })
  } catch (error) {
    // What waited was told to stop, which goes on elsewhere.
    if (stopping.signal.aborted) return
    throw error
  }
}

const stop = async (signal: string, deadline: number): Promise<void> => {
  say(`stopping after ${signal}; finishing what has begun (again to stop at once)`)
  setTimeout(() => fail(new Error('could not stop in time')), deadline * 1_000).unref()
  stopping.abort()
  for (const close of closers.toReversed()) await close()
  say('stopped')
  process.exit(0)
}

/** The first signal stops the process cleanly, within `deadline` seconds; another one at once. */
const onSignals = (deadline: number): void => {
  let since: number | null = null
  const onSignal = (signal: string): void => {
    if (since === null) {
      since = performance.now()
      stop(signal, deadline).catch(fail)
    } else if (performance.now() - since > echo) {
      process.exit(130)
    }
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal)
}

run().catch(async (error: unknown) => {
  for (const close of closers.toReversed()) await close().catch(() => undefined)
  fail(error)
})
