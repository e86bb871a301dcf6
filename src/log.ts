import { writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import sonicBoom from 'sonic-boom'

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
  const stream = new sonicBoom.SonicBoom({
    fd: standardOutput,
    sync: false,
    maxLength: mostWaiting,
    // Else a flush does not wait.
    minLength: 1,
  })
  stream.on('error', () => undefined)
  let collected = ''
  const take = (): string => {
    const lines = collected
    collected = ''
    return lines
  }
  const passOn = (): void => {
    const lines = take()
    if (lines !== '') stream.write(lines)
  }
  // Whatever ends the process, but a kill. Once: what sonic-boom does here, it does for ever while it fails.
  process.on('exit', () => {
    try {
      writeSync(standardOutput, take())
    } catch {
      // There is nobody to tell.
    }
  })
  return {
    write(line) {
      if (collected === '') setTimeout(passOn, collectingTime).unref()
      collected += line
    },
    async flush() {
      passOn()
      const { promise: written, resolve } = Promise.withResolvers<void>()
      stream.flush(() => resolve())
      await Promise.race([written, pause(longestWait, undefined, { ref: false })])
    },
  }
}
