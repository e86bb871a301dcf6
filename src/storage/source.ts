import { Readable } from 'node:stream'

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

/** A source whose failure looks like its end, until `rethrow` is called: first what came of it is to be kept. */
export const endQuietly = (source: AsyncIterable<Uint8Array>) => {
  let failure: { readonly error: unknown } | null = null
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* source
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
