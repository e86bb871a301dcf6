import pino from 'pino'

/** Where log lines go. */
export interface LogStream {
  write(line: string): void
}

/** Milliseconds for which lines are collected: a write for each of them would take longer than the rest of logging. */
const collectingTime = 50

/** Characters that wait to be written at most; what comes after is lost. */
const mostWaiting = 4_194_304

/**
 * The standard output, which nobody waits for. Lines that cannot be written, as to a disk that is full, wait for a while,
 * and keep the service from nothing.
 */
export const openLog = (): LogStream & { flush(): Promise<void> } => {
  const stream = pino.destination({ sync: false, maxLength: mostWaiting })
  stream.on('error', () => undefined)
  let collected = ''
  const passOn = (): void => {
    if (collected !== '') stream.write(collected)
    collected = ''
  }
  const flush = (): void => {
    passOn()
    try {
      stream.flushSync()
    } catch {
      // There is nobody to tell.
    }
  }
  // Whatever ends the process, but a kill.
  process.on('exit', flush)
  return {
    write(line) {
      if (collected === '') setTimeout(passOn, collectingTime).unref()
      collected += line
    },
    async flush() {
      flush()
    },
  }
}
