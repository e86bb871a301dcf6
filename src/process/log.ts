import { hostname } from 'node:os'
import { inspect } from 'node:util'
import type { LogFormat } from '../config/config.ts'

/** The log of the process itself: start, stop and failures. Written synchronously, regardless of LOG_LEVEL. */
export interface ProcessLog {
  readonly info: (message: string) => void
  readonly warn: (message: string) => void
  /** Why the process ends. `error` is logged with its stack, for developers. */
  readonly fatal: (message: string, error?: unknown) => void
}

/** The levels of pino, which logs the requests. */
const levels = { info: 30, warn: 40, fatal: 60 } as const

export const createProcessLog = (
  format: LogFormat,
  { worker }: { readonly worker: number | null },
): ProcessLog => {
  if (format === 'pretty') {
    return {
      info: (message) => console.log(`taskwright: ${message}`),
      warn: (message) => console.log(`taskwright: ${message}`),
      fatal(message, error) {
        if (error !== undefined) console.error(error)
        console.error(`taskwright: ${message}`)
      },
    }
  }
  const base = { pid: process.pid, hostname: hostname(), ...(worker !== null && { worker }) }
  const write = (level: number, message: string, error?: unknown): void =>
    console.log(
      JSON.stringify({
        level,
        time: Date.now(),
        ...base,
        ...(error !== undefined && { err: describeError(error) }),
        msg: message,
      }),
    )
  return {
    info: (message) => write(levels.info, message),
    warn: (message) => write(levels.warn, message),
    fatal: (message, error) => write(levels.fatal, message, error),
  }
}

/** Serialized as by pino; the stack includes the causes. */
const describeError = (error: unknown) =>
  error instanceof Error
    ? { type: error.name, message: error.message, stack: inspect(error) }
    : { type: typeof error, message: inspect(error) }
