/**
 * The memory of chunks that were read from a connection or a file, freed as soon as they have been used. The garbage
 * collector would wait until 64 MiB of it have come together, and then mark the whole heap, while a fast connection goes
 * on: the process grew with the speed of its transfers, and to collect a chunk took twenty times as long as to free it.
 *
 * What writes a chunk must have written it, and not only been given it: it has no hold on the memory.
 */

/** Frees a chunk of which nobody else has any part. It is empty from now on. */
export function free({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** Where chunks are of which only parts are passed on. */
const divided = new WeakSet<ArrayBufferLike>()

/** Leaves a chunk to whoever uses its parts, in their order. */
export function freeWithParts({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength) divided.add(buffer)
}

/**
 * Frees chunks of which parts have been used: to be told of each part when those before have been. A chunk is freed when
 * a part of another one comes; the last is not, for others may have parts of it.
 */
export function freeUsedParts(): (part: Uint8Array) => void {
  let used: ArrayBufferLike | null = null
  return ({ buffer }) => {
    if (used !== null && used !== buffer && divided.delete(used)) free(new Uint8Array(used))
    used = buffer
  }
}
