import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { callbackify } from 'node:util'
import { freeUsedParts } from './chunk-memory.ts'

/**
 * A stream may fail before anyone reads it. Unheard, its error would end the process; merely emitted, without the stream
 * being destroyed, it would be lost and the reader wait for ever.
 */
export function holdErrors(source: AsyncIterable<Uint8Array>): void {
  if (source instanceof Readable) source.on('error', (error) => source.destroy(error))
}

export function destroy(source: AsyncIterable<Uint8Array>): void {
  if (source instanceof Readable) source.destroy()
}

/**
 * Gives every chunk of a source to `take`, one after the other, which holds the source back and keeps nothing of them. What
 * it does has ended when this ends, also when the source fails meanwhile.
 *
 * A stream is piped, which hands its chunks on as they are: to iterate over it copies what has come meanwhile.
 */
export const consume = async (
  source: AsyncIterable<Uint8Array>,
  take: (chunk: Uint8Array) => Promise<void>,
): Promise<void> => {
  let taken = Promise.resolve()
  const freeUsed = freeUsedParts()
  const write = callbackify((chunk: Uint8Array) => {
    freeUsed(chunk)
    return (taken = take(chunk))
  })
  const sink = new Writable({ write: (chunk: Uint8Array, _encoding, done) => write(chunk, done) })
  try {
    await pipeline(source, sink)
  } finally {
    await Promise.allSettled([taken])
  }
}

/** A source whose failure looks like its end, until `rethrow` is called: first what came of it is to be kept. */
export const endQuietly = (source: AsyncIterable<Uint8Array>) => {
  let failure: { readonly error: unknown } | null = null
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      const freeUsed = freeUsedParts()
      for await (const chunk of source) {
        freeUsed(chunk)
        yield chunk
      }
    } catch (error) {
      failure = { error }
    }
  }
  return {
    chunks: chunks(),
    rethrow(): void {
      if (failure !== null) throw failure.error
    },
  }
}
