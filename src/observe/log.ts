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
 * Bytes that a pipe takes whole or not at all (PIPE_BUF on Linux), so that processes that share one do not tear each
 * other's lines apart.
 */
const atomicWrite = 4_096

/**
 * The standard output, which nobody waits for. `isShared` says that other processes write to it as well. Lines that cannot be written, as to a disk that is full, wait for a while,
 * and keep the service from nothing, not from its end either.
 */
export const openLog = ({
  isShared,
}: {
  readonly isShared: boolean
}): LogStream & { flush(): Promise<void> } => {
  const stream = new sonicBoom.SonicBoom({
    fd: standardOutput,
    sync: false,
    maxLength: mostWaiting,
    ...(isShared && { maxWrite: atomicWrite }),
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
    if (lines === '') return
    for (const piece of isShared ? piecesOf(lines) : [lines]) stream.write(piece)
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

/** Whole lines, in pieces that a pipe takes at once; a line that is longer is a piece of its own. */
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
