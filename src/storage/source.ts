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
