import { write, writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** Where log lines go. */
export interface LogStream {
  write(line: string): void
}

/** Milliseconds for which lines are collected: a write for each of them would take longer than the rest of logging. */
const collectingTime = 50

/** Characters that wait to be written at most; what comes after is lost. */
const mostWaiting = 4_194_304

/** Milliseconds for which a slow reader is waited for at the end. */
const longestWait = 1_000

const standardOutput = 1

/**
 * The standard output, which nobody waits for. Lines that cannot be written, as to a disk that is full, wait for a while,
 * and keep the service from nothing, not from its end either.
 */
export const openLog = (): LogStream & { flush(): Promise<void> } => {
  let lines = ''
  /** What is still to be written of the lines before these. */
  let rest = Buffer.alloc(0)
  let writing: PromiseWithResolvers<void> | null = null
  let isDue = false

  const take = (): Buffer<ArrayBuffer> => {
    const bytes = rest.length > 0 ? rest : Buffer.from(lines)
    if (rest.length === 0) lines = ''
    rest = Buffer.alloc(0)
    return bytes
  }

  const writeSoon = (): void => {
    if (!isDue) setTimeout(writeOn, collectingTime).unref()
    isDue = true
  }

  const writeOn = (): void => {
    isDue = false
    if (writing !== null) return
    const bytes = take()
    if (bytes.length === 0) return
    const done = (writing = Promise.withResolvers<void>())
    write(standardOutput, bytes, (error, written) => {
      writing = null
      done.resolve()
      rest = error === null ? bytes.subarray(written) : bytes
      // Not at once: who waits for the end of this write may want to write all the rest.
      if (error === null) setImmediate(writeOn)
      else writeSoon()
    })
  }

  const writeAll = (): void => {
    // Nothing may come between the bytes that the system is writing.
    if (writing !== null) return
    for (let waited = 0; waited < longestWait;) {
      const bytes = take()
      if (bytes.length === 0) return
      try {
        rest = bytes.subarray(writeSync(standardOutput, bytes))
      } catch (error) {
        rest = bytes
        // There is nobody to tell.
        if (!isBusy(error)) return
        waited += collectingTime
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, collectingTime)
      }
    }
  }

  // Whatever ends the process, but a kill.
  process.on('exit', writeAll)
  return {
    write(line) {
      if (lines.length + rest.length > mostWaiting) return
      lines += line
      writeSoon()
    },
    async flush() {
      await Promise.race([writing?.promise, pause(longestWait, undefined, { ref: false })])
      writeAll()
    },
  }
}

/** Whether a pipe is full, whose reader is slow. */
const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'EAGAIN'
