import pino from 'pino'

/** Where log lines go. */
export interface LogStream {
  write(line: string): void
}

/** Milliseconds for which lines are collected: a write for each of them would take longer than the rest of logging. */
const collectingTime = 50

/** The standard output, which nobody waits for. */
export const openLog = (): LogStream & { flush(): Promise<void> } => {
  const stream = pino.destination({ sync: false })
  let collected = ''
  const passOn = (): void => {
    if (collected !== '') stream.write(collected)
    collected = ''
  }
  const flush = (): void => {
    passOn()
    stream.flushSync()
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
