import type { MultipartFile, MultipartValue } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { finished as eos, type Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { type Digest, parseContentDigest, parseSha256 } from './digests.ts'
import type { Digested, FileForm, UploadChunk } from '../contract/files.ts'
import { describeFile, validateFileName, type FileDescription } from '../domain/files/file-description.ts'
import { type MapError, Problem, problems } from '../problems/problems.ts'
import { continueBody, hasBody } from './body.ts'
import { type FilePart, watchFilePart } from './file-part.ts'

/** Bytes of a form besides the file: boundaries and part headers. */
export const maxFormOverhead = 16_384

/** Milliseconds for which the rest of a refused body is read: most clients read the response only after sending the body. */
const drainTime = 5_000

/**
 * The form of a multipart request (RFC 7578).
 *
 * @throws Problem when its Content-Digest is malformed
 */
export const readFileForm = (request: FastifyRequest, maxBytes: number, mapError: MapError): FileForm => {
  const digests = readContentDigest(request)
  const { 'content-length': length } = request.headers
  return {
    minSize: Math.max(0, Number(length ?? 0) - maxFormOverhead),
    maxSize: Number(length ?? Infinity),
    receive: (store, discard) => receiveFile(request, { maxBytes, digests, store, discard, mapError }),
  }
}

interface Reception<Stored> {
  readonly maxBytes: number
  /** Expected digests of the whole form. */
  readonly digests: readonly Digest[]
  readonly store: (content: Readable) => Promise<Stored>
  readonly discard: (stored: Stored) => Promise<void>
  readonly mapError: MapError
}

const receiveFile = async <Stored extends Digested>(
  request: FastifyRequest,
  { maxBytes, digests, store, discard, mapError }: Reception<Stored>,
): Promise<FileDescription & { readonly stored: Stored }> => {
  let received: (FileDescription & { readonly stored: Stored }) | null = null
  let sha256: string | null = null
  try {
    continueBody(request.raw)
    const checkContent = hashContent(request, digests)
    const filePart = watchFilePart(request.raw)
    // One byte more than allowed: the storage then refuses the file, whereas the parser would truncate it.
    const limits = { fileSize: maxBytes + 1, files: 2, fields: 4, parts: 6, fieldSize: 1_024 }
    for await (const part of failOnAbort(request.raw, request.parts({ limits }))) {
      if (part.fieldname === 'sha256') {
        if (isEmptyField(part)) continue
        if (sha256 !== null) throw problems.invalidField('/sha256', 'must appear only once')
        sha256 = readSha256(part)
      } else {
        const file = expectFile(part)
        if (received !== null) throw problems.invalidField('/file', 'must appear only once')
        received = { ...describePart(file, filePart()), stored: await store(file.file) }
      }
    }
    if (received === null) throw problems.invalidField('/file', 'is required')
    if (sha256 !== null && sha256 !== received.stored.sha256) throw problems.digestMismatch('/sha256')
    await checkContent()
    return received
  } catch (error) {
    drainBriefly(request)
    if (received !== null) await discard(received.stored)
    // Any other error is one of the parser or of the connection.
    throw error instanceof Problem || mapError(error) !== null
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

/** Starts hashing the request's content. Returns a function that awaits the last byte and compares the digests. */
const hashContent = ({ raw }: FastifyRequest, digests: readonly Digest[]): (() => Promise<void>) => {
  const hashes = digests.map(({ algorithm, hex }) => ({ hash: createHash(algorithm), hex }))
  if (hashes.length === 0) return async () => undefined
  raw.on('data', (chunk: Buffer) => {
    for (const { hash } of hashes) hash.update(chunk)
  })
  return async () => {
    // Content may follow the form's last boundary (RFC 2046 §5.1.1); the parser does not read it.
    raw.resume()
    await finished(raw, { writable: false })
    if (hashes.some(({ hash, hex }) => hash.digest('hex') !== hex)) {
      throw problems.digestMismatch('/Content-Digest')
    }
  }
}

type FormPart = MultipartFile | MultipartValue

/** Fails when the connection is lost between two parts of a form, where the parser would wait forever. */
async function* failOnAbort(
  body: Readable,
  parts: AsyncIterableIterator<FormPart>,
): AsyncGenerator<FormPart> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  aborted.catch(() => undefined)
  eos(body, { writable: false }, (error) => {
    if (error) reject(error)
  })
  for (;;) {
    const next = await Promise.race([parts.next(), aborted])
    if (next.done === true) return
    yield next.value
  }
}

/** HTML forms also send fields that were left empty. */
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

const describePart = ({ mimetype }: MultipartFile, part: FilePart | null): FileDescription => {
  if (part === null || part.name === null)
    throw problems.invalidField('/file', 'must be a file with a name in UTF-8')
  const fault = validateFileName(part.name)
  if (fault !== null) throw problems.invalidField('/file', fault)
  return describeFile(part.name, part.isTypeDeclared ? mimetype : null)
}

/** The raw body of a request. It is not destroyed when `store` fails, since the response needs the connection. */
export const readUploadChunk = (request: FastifyRequest): UploadChunk => ({
  hasContent: hasBody(request.headers),

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

/** The chunks of a body. Ending the iteration early does not destroy the request. */
async function* chunksOf(body: IncomingMessage): AsyncGenerator<Buffer> {
  continueBody(body)
  yield* body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
}

/** Discards the rest of a body for `drainTime`, then closes the connection. */
const drainBriefly = ({ raw }: FastifyRequest): void => {
  raw.unpipe()
  raw.resume()
  const timer = setTimeout(() => raw.destroy(), drainTime)
  timer.unref()
  raw.once('close', () => clearTimeout(timer))
  raw.once('end', () => clearTimeout(timer))
}
