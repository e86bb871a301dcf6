import type { MultipartFile, MultipartValue } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { finished as eos, type Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { type Digest, parseContentDigest, parseSha256 } from './digests.ts'
import type { Digested, FileForm, FilePiece } from '../contract/files.ts'
import { describeFile, validateFileName, type FileDescription } from '../domain/file-description.ts'
import { Problem, problems } from '../problems/problems.ts'
import { FileTooLarge, StorageFull, StorageUnavailable } from '../storage/storage.ts'
import { continueBody, hasBody } from './body.ts'

/** Bytes that a form may have beside the file: boundaries and part headers. */
export const largestFormOverhead = 16_384

/** How long the rest of a refused form is read, in milliseconds, so that its sender gets to read the answer. */
const drainTime = 5_000

/**
 * The form of a multipart request (RFC 7578).
 *
 * @throws Problem when its Content-Digest cannot be read
 */
export const readFileForm = (request: FastifyRequest, maxBytes: number): FileForm => {
  const digests = readContentDigest(request)
  const { 'content-length': length } = request.headers
  return {
    leastSize: Math.max(0, Number(length ?? 0) - largestFormOverhead),
    mostSize: Number(length ?? Infinity),
    receive: (store, discard) => receiveFile(request, { maxBytes, digests, store, discard }),
  }
}

interface Reception<Stored> {
  readonly maxBytes: number
  /** Of the whole form. */
  readonly digests: readonly Digest[]
  readonly store: (content: Readable) => Promise<Stored>
  readonly discard: (stored: Stored) => Promise<void>
}

const receiveFile = async <Stored extends Digested>(
  request: FastifyRequest,
  { maxBytes, digests, store, discard }: Reception<Stored>,
): Promise<FileDescription & { readonly stored: Stored }> => {
  let received: (FileDescription & { readonly stored: Stored }) | null = null
  let sha256: string | null = null
  try {
    continueBody(request.raw)
    const checkContent = hashContent(request, digests)
    // One byte more than is taken, so that the storage sees it and refuses, instead of a file cut short.
    const limits = { fileSize: maxBytes + 1, files: 2, fields: 4, parts: 6, fieldSize: 1_024 }
    for await (const part of untilCut(request.raw, request.parts({ limits }))) {
      if (part.fieldname === 'sha256') {
        if (isEmptyField(part)) continue
        if (sha256 !== null) throw problems.invalidField('/sha256', 'must appear only once')
        sha256 = readSha256(part)
      } else {
        const file = expectFile(part)
        if (received !== null) throw problems.invalidField('/file', 'must appear only once')
        received = { ...describePart(file), stored: await store(file.file) }
      }
    }
    if (received === null) throw problems.invalidField('/file', 'is required')
    if (sha256 !== null && sha256 !== received.stored.sha256) throw problems.digestMismatch('/sha256')
    await checkContent()
    return received
  } catch (error) {
    drainBriefly(request)
    if (received !== null) await discard(received.stored)
    throw isForeseen(error)
      ? error
      : problems.invalidRequest('The form is incomplete or is not multipart/form-data.')
  }
}

const readContentDigest = ({ headers }: FastifyRequest): readonly Digest[] => {
  const header = headers['content-digest']
  if (header === undefined) return []
  const digests = parseContentDigest(String(header))
  if (digests === null) {
    throw problems.invalidField(
      '/Content-Digest',
      'must contain sha-256=:…: or sha-512=:…: with the digest in Base64',
    )
  }
  return digests
}

/** Hashes the request's content from its first byte on; what is returned waits for the last one and checks it. */
const hashContent = ({ raw }: FastifyRequest, digests: readonly Digest[]): (() => Promise<void>) => {
  const hashes = digests.map(({ algorithm, hex }) => ({ hash: createHash(algorithm), hex }))
  if (hashes.length === 0) return async () => undefined
  raw.on('data', (chunk: Buffer) => {
    for (const { hash } of hashes) hash.update(chunk)
  })
  return async () => {
    // Content may go on behind the form's last boundary (RFC 2046 §5.1.1), where the parser need not read it.
    raw.resume()
    await finished(raw, { writable: false })
    if (hashes.some(({ hash, hex }) => hash.digest('hex') !== hex)) {
      throw problems.digestMismatch('/Content-Digest')
    }
  }
}

type FormPart = MultipartFile | MultipartValue

/** The parts of a form, which fail when its connection is lost between two of them: the parser would wait for ever. */
async function* untilCut(body: Readable, parts: AsyncIterableIterator<FormPart>): AsyncGenerator<FormPart> {
  const { promise: cut, reject } = Promise.withResolvers<never>()
  cut.catch(() => undefined)
  eos(body, { writable: false }, (error) => {
    if (error) reject(error)
  })
  for (;;) {
    const next = await Promise.race([parts.next(), cut])
    if (next.done === true) return
    yield next.value
  }
}

/** What a page sends of a field that nobody has filled in. */
const isEmptyField = (part: FormPart): boolean => part.type === 'field' && part.value === ''

const readSha256 = (part: FormPart): string => {
  const sha256 = part.type === 'field' && typeof part.value === 'string' ? parseSha256(part.value) : null
  if (sha256 === null) {
    throw problems.invalidField('/sha256', 'must be a field with 64 hexadecimal digits')
  }
  return sha256
}

const expectFile = (part: FormPart): MultipartFile => {
  if (part.fieldname !== 'file') {
    throw problems.invalidField(
      `/${part.fieldname.slice(0, 100)}`,
      'is not a known field. Expected one of: file, sha256',
    )
  }
  if (part.type === 'field') throw problems.invalidField('/file', 'must be a file with a name')
  return part
}

const describePart = ({ filename, mimetype }: MultipartFile): FileDescription => {
  const fault = validateFileName(filename)
  if (fault !== null) throw problems.invalidField('/file', fault)
  return describeFile(filename, mimetype)
}

/** The body of a request as it is. When `store` fails it is not destroyed, since the answer needs its connection. */
export const readFilePiece = (request: FastifyRequest): FilePiece => ({
  isThere: hasBody(request.headers),

  async receive(store) {
    const { raw } = request
    try {
      return await store(chunksOf(raw))
    } catch (error) {
      if (raw.destroyed && !raw.complete) throw problems.invalidRequest('The body is incomplete.')
      drainBriefly(request)
      throw error
    }
  },
})

/** The chunks of a body, which is not destroyed when they are not all asked for. */
async function* chunksOf(body: IncomingMessage): AsyncGenerator<Buffer> {
  continueBody(body)
  yield* body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
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
