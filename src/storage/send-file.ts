import type { ReadStream } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { free } from './chunk-memory.ts'
import type { ByteRange } from './storage.ts'

/** Large enough that a file is read in few steps, small enough to have two for each of hundreds of downloads. */
const pieceSize = 131_072

/**
 * A file's content as a stream, which when it is piped reads into the same two pieces of memory again and again. As chunks
 * of their own the bytes would be garbage, and V8 collects the whole heap for every few megabytes of such: that took more
 * time than all the rest of a download.
 */
export function openContent(handle: FileHandle, range?: ByteRange): ReadStream {
  const content = handle.createReadStream(range)
  content.pipe = (destination, options) => {
    const send = async (): Promise<void> => {
      await sendFile(handle, range, content, destination)
      if (content.destroyed) return
      if (options?.end !== false) destination.end()
      // Nobody has read from the stream itself: it ends, and closes the file.
      content.push(null)
      content.resume()
    }
    send().catch((error: Error) => content.destroy(error))
    return destination
  }
  return content
}

/** Has a stream, when it is piped, free each of its chunks when that is written. */
export function freeWhenPiped(content: Readable): void {
  content.pipe = (destination, options) => {
    content.on('data', (chunk: Buffer) => {
      if (destination.write(chunk, () => free(chunk))) return
      content.pause()
      destination.once('drain', () => content.resume())
    })
    if (options?.end !== false) content.once('end', () => destination.end())
    return destination
  }
}

/** While one piece is written the other is read; a piece is read again when it has been taken. */
async function sendFile(
  handle: FileHandle,
  { start, end }: ByteRange = { start: 0, end: Infinity },
  content: ReadStream,
  destination: NodeJS.WritableStream,
): Promise<void> {
  let [reading, writing] = [Buffer.allocUnsafeSlow(pieceSize), Buffer.allocUnsafeSlow(pieceSize)]
  let written = Promise.resolve()
  for (let position = start; position <= end && !content.destroyed;) {
    const wanted = Math.min(pieceSize, end - position + 1)
    const { bytesRead } = await handle.read(reading, 0, wanted, position)
    if (bytesRead === 0) break
    position += bytesRead
    content.bytesRead += bytesRead
    await written
    ;[reading, writing] = [writing, reading]
    written = write(destination, writing.subarray(0, bytesRead))
  }
  await written
}

/** Resolves when the bytes are not needed any more, be it because there is nobody left to take them. */
const write = (destination: NodeJS.WritableStream, bytes: Buffer): Promise<void> =>
  new Promise((resolve) => {
    destination.write(bytes, () => resolve())
  })
