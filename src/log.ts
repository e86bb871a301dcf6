import pino from 'pino'

/** Where log lines go. */
export interface LogStream {
  write(line: string): void
}

/** The standard output, which nobody waits for: what is logged while it is being written to goes out together. */
export const openLog = (): LogStream & { flush(): Promise<void> } => {
  const stream = pino.destination({ sync: false })
  // Whatever ends the process, but a kill.
  process.on('exit', () => stream.flushSync())
  return {
    write: (line) => void stream.write(line),
    async flush() {
      stream.flushSync()
    },
  }
}
