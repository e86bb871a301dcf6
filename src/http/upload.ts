import type { MultipartFile } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import { Problem, problems } from '../problems.ts'
import { FileTooLarge, StorageFull, StorageUnavailable } from '../storage/storage.ts'
import { isCleanText } from './validation.ts'

/** How a client describes the file that it sends. */
export interface FileDescription {
  readonly fileName: string
  readonly contentType: string
}

/** A form that carries one file, not read yet. */
export interface FileForm {
  /**
   * Streams the file into `store` and reads the form to its end. When the form turns out to hold anything else,
   * what was stored is given to `discard`.
   *
   * @throws Problem when the form is not as the contract describes it
   */
  receive<Stored>(
    store: (content: Readable) => Promise<Stored>,
    discard: (stored: Stored) => Promise<void>,
  ): Promise<FileDescription & { readonly stored: Stored }>
}

/** Bytes that a form may have beside the file: boundaries and part headers. */
export const largestFormOverhead = 16_384

/** How long the rest of a refused form is read, in milliseconds, so that its sender gets to read the answer. */
const drainTime = 5_000

const longestFileName = 255
const mediaType = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/

/** The form of a multipart request (RFC 7578). */
export const readFileForm = (request: FastifyRequest, maxBytes: number): FileForm => ({
  async receive(store, discard) {
    let received: (FileDescription & { stored: Awaited<ReturnType<typeof store>> }) | null = null
    try {
      // One byte more than is taken, so that the storage sees it and refuses, instead of a file cut short.
      const limits = { fileSize: maxBytes + 1, files: 2, fields: 4, parts: 6, fieldSize: 1_024 }
      for await (const part of request.parts({ limits })) {
        const file = expectFile(part)
        if (received !== null) throw problems.invalidField('/file', 'must be there once')
        received = { ...describeFile(file), stored: await store(file.file) }
      }
      if (received === null) throw problems.invalidField('/file', 'is required')
      return received
    } catch (error) {
      drainBriefly(request)
      if (received !== null) await discard(received.stored)
      throw isForeseen(error)
        ? error
        : problems.invalidRequest('The form ends early or is not multipart/form-data.')
    }
  },
})

const expectFile = (part: MultipartFile | { type: 'field'; fieldname: string }): MultipartFile => {
  if (part.fieldname !== 'file') {
    throw problems.invalidField(`/${part.fieldname.slice(0, 100)}`, 'is not known here; known is file')
  }
  if (part.type === 'field') throw problems.invalidField('/file', 'must be a file with a name')
  return part
}

const describeFile = ({ filename, mimetype }: MultipartFile): FileDescription => {
  if (!isCleanText(filename) || /\p{Cc}/u.test(filename)) {
    throw problems.invalidField('/file', 'must have a name without control characters')
  }
  const fileName = filename.normalize('NFC')
  if (fileName === '' || Array.from(fileName).length > longestFileName) {
    throw problems.invalidField('/file', `must have a name of 1 to ${longestFileName} characters`)
  }
  return {
    fileName,
    contentType: mediaType.test(mimetype) ? mimetype.toLowerCase() : 'application/octet-stream',
  }
}

const isForeseen = (error: unknown): boolean =>
  error instanceof Problem ||
  error instanceof FileTooLarge ||
  error instanceof StorageFull ||
  error instanceof StorageUnavailable

/** Reads on for a while without keeping anything; a sender that has still not ended is cut off. */
const drainBriefly = ({ raw }: FastifyRequest): void => {
  raw.unpipe()
  raw.resume()
  const timer = setTimeout(() => raw.destroy(), drainTime)
  timer.unref()
  raw.once('close', () => clearTimeout(timer))
  raw.once('end', () => clearTimeout(timer))
}
