import { Readable } from 'node:stream'

/**
 * Handles errors that a stream emits before it is read. Without a listener, such an error would end the process; unless the
 * stream is destroyed, its later reader would wait forever.
 */
export function handleEarlyErrors(source: AsyncIterable<Uint8Array>): void {
  if (source instanceof Readable) source.on('error', (error) => source.destroy(error))
}

export function destroy(source: AsyncIterable<Uint8Array>): void {
  if (source instanceof Readable) source.destroy()
}

/** Ends the iteration when `source` fails, so that the received bytes can be saved before `rethrow` throws the error. */
export const deferFailure = (source: AsyncIterable<Uint8Array>) => {
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
