/** A third of an upload's time went into writing each chunk by itself. Two pieces for each of many uploads are still little. */
export const pieceSize = 262_144

/**
 * Gathers chunks into pieces of `size` bytes. While one piece is written by `write` the next is filled, so what becomes
 * of a write is told by a later `add`, or by `end`.
 */
export function gather(size: number, write: (piece: Uint8Array) => Promise<void>) {
  let filling = new Uint8Array(size)
  let filled = 0
  let other: Uint8Array<ArrayBuffer> | null = null
  let written = Promise.resolve()

  const writeFilled = async (): Promise<void> => {
    await written
    written = write(filling.subarray(0, filled))
    written.catch(() => undefined)
    ;[filling, other] = [other ?? new Uint8Array(size), filling]
    filled = 0
  }

  return {
    async add(chunk: Uint8Array): Promise<void> {
      for (let taken = 0; taken < chunk.byteLength;) {
        if (filled === size) await writeFilled()
        const part = chunk.subarray(taken, taken + size - filled)
        filling.set(part, filled)
        filled += part.byteLength
        taken += part.byteLength
      }
    },

    /** Writes the rest. */
    async end(): Promise<void> {
      await writeFilled()
      await written
    },
  }
}
