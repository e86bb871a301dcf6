import { writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import sonicBoom from 'sonic-boom'

export interface LogStream {
  write(line: string): void
}

/** Milliseconds between writes. A write per line would take longer than the rest of logging. */
const flushInterval = 50

/** Maximum number of buffered characters. Further lines are dropped. */
const maxBuffered = 4_194_304

/** Maximum duration of a flush to a slow reader, in milliseconds. */
const maxFlushTime = 1_000

const standardOutput = 1

/** Maximum bytes of an atomic write to a pipe (PIPE_BUF on Linux). Longer writes of several processes can interleave. */
const atomicWrite = 4_096

/**
 * Logs to standard output without ever blocking the service. Lines that cannot be written, for example to a full disk, are
 * buffered up to `maxBuffered`, and do not delay a shutdown for longer than `maxFlushTime`. Set `isShared` if other processes
 * write to the same output.
 */
export const openLog = ({
  isShared,
}: {
  readonly isShared: boolean
}): LogStream & { flush(): Promise<void> } => {
  const stream = new sonicBoom.SonicBoom({
    fd: standardOutput,
    sync: false,
    maxLength: maxBuffered,
    ...(isShared && { maxWrite: atomicWrite }),
    // Otherwise flush calls back before the write.
    minLength: 1,
  })
  stream.on('error', () => undefined)
  let collected = ''
  const take = (): string => {
    const lines = collected
    collected = ''
    return lines
  }
  const writeCollected = (): void => {
    const lines = take()
    if (lines === '') return
    for (const piece of isShared ? piecesOf(lines) : [lines]) stream.write(piece)
  }
  // Written here once, because sonic-boom's own exit handling retries forever while the output fails.
  process.on('exit', () => {
    try {
      writeSync(standardOutput, take())
    } catch {
      // The output is gone, so the error cannot be reported.
    }
  })
  return {
    write(line) {
      if (collected === '') setTimeout(writeCollected, flushInterval).unref()
      collected += line
    },
    async flush() {
      writeCollected()
      const { promise: written, resolve } = Promise.withResolvers<void>()
      stream.flush(() => resolve())
      await Promise.race([written, pause(maxFlushTime, undefined, { ref: false })])
    },
  }
}

/** Leaves out the lines whose message begins with a text. In other values, quotation marks are escaped. */
export const withoutMessage = (stream: LogStream, start: string): LogStream => ({
  write(line) {
    if (!line.includes(`"msg":"${start}`)) stream.write(line)
  },
})

/** Groups whole lines into pieces that are written atomically; a longer line is a piece of its own. */
const piecesOf = (lines: string): string[] => {
  const pieces: string[] = []
  let piece = ''
  for (const line of lines.split(/(?<=\n)/)) {
    if (piece !== '' && Buffer.byteLength(piece) + Buffer.byteLength(line) > atomicWrite) {
      pieces.push(piece)
      piece = ''
    }
    piece += line
  }
  return [...pieces, piece]
}
