import type { Readable } from 'node:stream'

/** Bytes. A task with a description of the greatest length, all of it escaped, is shorter. */
const maxLine = 2 * 1024 ** 2

const newline = 0x0a

export interface Line {
  readonly number: number
  /** Null if the line is too long. */
  readonly bytes: Buffer | null
}

/** Joins pieces of bytes in one buffer, whatever their number: many small ones would take far more memory than their bytes. */
export class BoundedBytes {
  readonly #limit: number
  #buffer = Buffer.alloc(1024)
  #length = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Null is a piece that was too long itself. */
  append(piece: Buffer | null): void {
    const start = this.#length
    this.#length += piece?.length ?? this.#limit + 1
    if (piece === null || this.#length > this.#limit) return
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.min(this.#limit, 2 * this.#length))
      this.#buffer.copy(larger, 0, 0, start)
      this.#buffer = larger
    }
    piece.copy(this.#buffer, start)
  }

  /** What was joined, until the next piece; null if it is longer than the limit. */
  joined(): Buffer | null {
    return this.#length > this.#limit ? null : this.#buffer.subarray(0, this.#length)
  }

  /** Begins with so many bytes of what was joined. */
  keep(length: number): void {
    this.#length = length
  }
}

/** The lines of bytes, without empty ones, of which only one at a time is held. */
export async function* linesIn(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line, void> {
  let number = 0
  let held: Buffer[] = []
  let length = 0
  const end = (): Line | null => {
    number += 1
    const isEmpty = length === 0
    const bytes = length > maxLine ? null : Buffer.concat(held)
    held = []
    length = 0
    return isEmpty ? null : { number, bytes }
  }
  const hold = (piece: Buffer): void => {
    length += piece.length
    if (length <= maxLine) held.push(piece)
    else held = []
  }
  for await (const chunk of chunks) {
    let start = 0
    for (let stop = chunk.indexOf(newline); stop >= 0; stop = chunk.indexOf(newline, start)) {
      hold(chunk.subarray(start, stop))
      start = stop + 1
      const line = end()
      if (line !== null) yield line
    }
    if (start < chunk.length) hold(chunk.subarray(start))
  }
  const line = end()
  if (line !== null) yield line
}

/** The whole content of a small stream; null if it has more bytes than the limit. */
export const bytesOf = async (stream: Readable, limit: number): Promise<Buffer | null> => {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > limit) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
