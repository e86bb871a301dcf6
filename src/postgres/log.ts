import type { Readable } from 'node:stream'
import { createInterface } from 'node:readline'

export interface Log {
  info(message: string): void
  warn(message: string): void
}

/** The levels that PostgreSQL's own documentation calls less severe than a warning. */
const harmless = /^(LOG|INFO|NOTICE|DEBUG\d?)$/

const ready = 'database system is ready to accept connections'

/** The log of a PostgreSQL that runs. */
export interface ServerLog {
  /** Resolves when it says that it accepts connections. Rejects when the log ends before. */
  readonly ready: Promise<void>
  /** The last lines that are no routine, for explaining why it has ended. */
  lastProblem(): string | null
}

/** Passes the lines of PostgreSQL on to the log of the service. */
export const followLog = (output: Readable, log: Log): ServerLog => {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  promise.catch(() => undefined)
  let problem: string | null = null
  const lines = createInterface({ input: output })
  lines.on('line', (line) => {
    const { severity = 'LOG', text = line } = /^(?<severity>[A-Z]+\d?): +(?<text>.*)/.exec(line)?.groups ?? {}
    if (harmless.test(severity)) log.info(`PostgreSQL: ${text}`)
    else {
      log.warn(`PostgreSQL: ${text}`)
      problem = text
    }
    if (text === ready) resolve()
  })
  lines.once('close', () => reject(new Error(problem ?? 'PostgreSQL has ended')))
  return { ready: promise, lastProblem: () => problem }
}
