import pino from 'pino'

/** Where log lines go. */
export interface LogStream {
  write(line: string): void
}

/** Characters that wait to be written at most; what comes after is lost. */
const mostWaiting = 4_194_304

/**
 * The standard output, which nobody waits for: what is logged while it is being written to goes out together. Lines that
 * cannot be written, as to a disk that is full, wait for a while, and keep the service from nothing.
 */
export const openLog = (): LogStream & { flush(): Promise<void> } => {
  const stream = pino.destination({ sync: false, maxLength: mostWaiting })
  stream.on('error', () => undefined)
  const flush = (): void => {
    try {
      stream.flushSync()
    } catch {
      // There is nobody to tell.
    }
  }
  // Whatever ends the process, but a kill.
  process.on('exit', flush)
  return {
    write: (line) => void stream.write(line),
    async flush() {
      flush()
    },
  }
}
