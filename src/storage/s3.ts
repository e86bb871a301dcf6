import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  NoSuchKey,
  NoSuchUpload,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { createHash } from 'node:crypto'
import { PassThrough, pipeline, Readable } from 'node:stream'
import type { S3Location } from '../config.ts'
import { expectKey, isKey, newKey } from './keys.ts'
import { removeOld } from './remove-old.ts'
import { destroy, holdErrors } from './source.ts'
import { FileMissing, FileTooLarge, StorageFull, StorageUnavailable } from './storage.ts'
import type { ListedFile, Storage, StoredFile } from './storage.ts'

/** How long the server may take, in milliseconds. What is not said to be of one attempt includes all of them. */
export interface S3Limits {
  /** To accept a connection, in one attempt. */
  readonly connect: number
  /** To take or send another byte, in one attempt; what a slow reader of a file takes is not counted. */
  readonly silence: number
  /** To do what has little to send. */
  readonly answer: number
  /** To take a part of a file. */
  readonly part: number
  /** To make one object of the parts, which some servers copy, in silence. */
  readonly completion: number
  /** To tell that it is there. */
  readonly check: number
}

const defaultLimits: S3Limits = {
  connect: 3_000,
  silence: 10_000,
  answer: 20_000,
  part: 120_000,
  completion: 120_000,
  check: 5_000,
}

/** The first attempt, and what follows a 5xx, a lost connection or silence. */
const maxAttempts = 3

/** What S3 takes for a part unless it is the last one, and of how many it makes an object. */
const smallestPart = 5 * 1024 * 1024
const mostParts = 10_000

/** What Ceph and Versity, and MinIO, call a quota that is used up. They and others answer 507 when a disk is full. */
const quotaErrors: ReadonlySet<string> = new Set(['QuotaExceeded', 'XMinioAdminBucketQuotaExceeded'])

interface ObjectName {
  readonly Bucket: string
  readonly Key: string
}

/** Bytes of a file, and whether they are the last ones. */
interface Part {
  readonly bytes: Buffer
  readonly isLast: boolean
}

/**
 * Files as objects of a bucket, named `<prefix><key>`. One that fits into a part is put at once, a larger one part by
 * part; either way it is there when it is complete. Credentials come from where the AWS SDK finds them.
 */
export const s3Storage = (location: S3Location, limits: S3Limits = defaultLimits): Storage => {
  const { bucket: Bucket, prefix } = location
  const client = openClient(location, limits, limits.silence)
  // For what may be silent rightly: a download whose reader takes its time, and an upload that is being completed.
  const patientClient = openClient(location, limits, 0)

  const objectOf = (key: string): ObjectName => ({ Bucket, Key: `${prefix}${expectKey(key)}` })

  const removeObject = (object: ObjectName): Promise<unknown> =>
    ask(limits.answer, (options) => client.send(new DeleteObjectCommand(object), options))

  const abortUpload = (object: ObjectName, UploadId: string | undefined): Promise<unknown> =>
    ask(limits.answer, (options) =>
      client.send(new AbortMultipartUploadCommand({ ...object, UploadId }), options),
    )

  const putWhole = (object: ObjectName, Body: Buffer, sha256: string): Promise<unknown> =>
    ask(limits.part, (options) =>
      client.send(new PutObjectCommand({ ...object, Body, ChecksumSHA256: sha256 }), options),
    )

  const beginUpload = async (object: ObjectName) => {
    const begin = new CreateMultipartUploadCommand({ ...object, ChecksumAlgorithm: 'CRC32' })
    const { UploadId } = await ask(limits.answer, (options) => client.send(begin, options))
    const Parts: CompletedPart[] = []
    return {
      async add(Body: Buffer): Promise<void> {
        const PartNumber = Parts.length + 1
        const part = new UploadPartCommand({ ...object, UploadId, PartNumber, Body })
        const { ETag, ChecksumCRC32 } = await ask(limits.part, (options) => client.send(part, options))
        Parts.push({ PartNumber, ETag, ChecksumCRC32 })
      },
      async complete(): Promise<void> {
        const complete = new CompleteMultipartUploadCommand({
          ...object,
          UploadId,
          MultipartUpload: { Parts },
        })
        const requestTimeout = limits.completion
        await ask(limits.completion, (options) =>
          patientClient.send(complete, { ...options, requestTimeout }),
        )
      },
      abort: () => abortUpload(object, UploadId),
    }
  }

  const store = async (
    object: ObjectName,
    source: AsyncIterable<Uint8Array>,
    maxBytes: number,
  ): Promise<Pick<StoredFile, 'size' | 'sha256'>> => {
    const meter = meterOf(source, maxBytes)
    let upload: Awaited<ReturnType<typeof beginUpload>> | null = null
    try {
      for await (const { bytes, isLast } of partsOf(meter.bytes, partSizeFor(maxBytes))) {
        if (isLast && upload === null) {
          await putWhole(object, bytes, meter.digest().toString('base64'))
        } else {
          upload ??= await beginUpload(object)
          await upload.add(bytes)
          if (isLast) await upload.complete()
        }
      }
      return { size: meter.size(), sha256: meter.digest().toString('hex') }
    } catch (error) {
      destroy(source)
      // An object as well: the server may have made it although its answer was lost. What cannot be removed now, and
      // an upload whose begin nobody was told of, is left to the sweeper.
      await Promise.allSettled([upload?.abort(), removeObject(object)])
      throw error
    }
  }

  /** The objects below the prefix, or those of them that come after a name, in the order of their names. */
  async function* objects(after?: string): AsyncGenerator<{ name: string; modifiedAt: Date }> {
    const StartAfter = after && `${prefix}${after}`
    let ContinuationToken: string | undefined
    do {
      const list = new ListObjectsV2Command({ Bucket, Prefix: prefix, StartAfter, ContinuationToken })
      const page = await ask(limits.answer, (options) => client.send(list, options))
      for (const { Key = '', LastModified } of page.Contents ?? []) {
        if (LastModified !== undefined) yield { name: Key.slice(prefix.length), modifiedAt: LastModified }
      }
      ContinuationToken = page.NextContinuationToken
    } while (ContinuationToken !== undefined)
  }

  async function* uploads(): AsyncGenerator<ListedFile & { uploadId: string | undefined }> {
    let markers: { readonly KeyMarker?: string | undefined; readonly UploadIdMarker?: string | undefined } =
      {}
    for (let isTruncated = true; isTruncated;) {
      const list = new ListMultipartUploadsCommand({ Bucket, Prefix: prefix, ...markers })
      const page = await ask(limits.answer, (options) => client.send(list, options))
      for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
        const key = Key.slice(prefix.length)
        if (isKey(key) && Initiated !== undefined) yield { key, modifiedAt: Initiated, uploadId: UploadId }
      }
      markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
      isTruncated = page.IsTruncated === true
    }
  }

  return {
    async put(source, { maxBytes }) {
      const key = newKey()
      holdErrors(source)
      return { key, ...(await store(objectOf(key), source, maxBytes)) }
    },

    async open(key, range) {
      const Range = range && `bytes=${range.start}-${range.end}`
      const get = new GetObjectCommand({ ...objectOf(key), Range })
      const requestTimeout = limits.silence
      const { Body } = await ask(limits.answer, (options) =>
        patientClient.send(get, { ...options, requestTimeout }),
      ).catch((error: unknown) => {
        throw isMissing(error) ? new FileMissing(key, { cause: error }) : error
      })
      if (!(Body instanceof Readable)) throw new StorageUnavailable({ cause: new Error('There is no body') })
      return endWhenSilent(Body, limits.silence)
    },

    async remove(key) {
      await removeObject(objectOf(key))
    },

    async *list() {
      for await (const { name, modifiedAt } of objects()) if (isKey(name)) yield { key: name, modifiedAt }
    },

    // Lists are in the order of their names: for keys that are neighbours this asks for little more than them.
    async missing(keys) {
      const [first, ...others] = keys.map(expectKey).toSorted()
      if (first === undefined) return []
      const last = others.at(-1) ?? first
      const missing = new Set(keys)
      for await (const { name } of objects(first.slice(0, -1))) {
        missing.delete(name)
        if (name >= last) break
      }
      return [...missing]
    },

    async *listUnfinished() {
      for await (const { key, modifiedAt } of uploads()) yield { key, modifiedAt }
    },

    removeAbandoned: (before) =>
      removeOld(uploads(), before, ({ key, uploadId }) =>
        abortIfThere(() => abortUpload(objectOf(key), uploadId)),
      ),

    async check() {
      await ask(limits.check, (options) => client.send(new HeadBucketCommand({ Bucket }), options))
    },

    async close() {
      client.destroy()
      patientClient.destroy()
    },
  }
}

const openClient = (
  { endpoint, region, pathStyle }: S3Location,
  limits: S3Limits,
  socketTimeout: number,
): S3Client =>
  new S3Client({
    region,
    ...(endpoint === null ? {} : { endpoint }),
    forcePathStyle: pathStyle,
    maxAttempts,
    // It would open a connection of its own for each part.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: limits.connect,
      socketTimeout,
      throwOnRequestTimeout: true,
      // There is one for each request of a client at most. With a bound, slow readers would keep others waiting.
      httpAgent: { maxSockets: Infinity },
      httpsAgent: { maxSockets: Infinity },
    },
  })

/** Small, since each upload holds one in memory, and large enough for a file of `maxBytes`. */
const partSizeFor = (maxBytes: number): number => Math.max(smallestPart, Math.ceil(maxBytes / mostParts))

/** The bytes of `source`, counted and hashed as they pass. */
const meterOf = (source: AsyncIterable<Uint8Array>, maxBytes: number) => {
  const hash = createHash('sha256')
  let size = 0
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      size += chunk.byteLength
      if (size > maxBytes) throw new FileTooLarge(maxBytes)
      hash.update(chunk)
      yield chunk
    }
  }
  return { bytes: bytes(), size: () => size, digest: () => hash.copy().digest() }
}

/** Parts of one size, but for the last one. All are the same memory: one is gone when the next is asked for. */
async function* partsOf(source: AsyncIterable<Uint8Array>, partSize: number): AsyncGenerator<Part> {
  const memory = Buffer.allocUnsafeSlow(partSize)
  let filled = 0
  for await (const chunk of source) {
    for (let taken = 0; taken < chunk.byteLength;) {
      if (filled === partSize) {
        yield { bytes: memory, isLast: false }
        filled = 0
      }
      const piece = chunk.subarray(taken, taken + partSize - filled)
      memory.set(piece, filled)
      filled += piece.byteLength
      taken += piece.byteLength
    }
  }
  yield { bytes: memory.subarray(0, filled), isLast: true }
}

/** A body that fails when its reader has waited for the next bytes for `limit` milliseconds. */
const endWhenSilent = (body: Readable, limit: number): Readable => {
  const output = new PassThrough()
  const timer = setTimeout(() => {
    if (output.writableNeedDrain) timer.refresh()
    else body.destroy(new Error(`The server has sent nothing for ${limit} ms`))
  }, limit)
  body.on('data', () => timer.refresh())
  output.on('drain', () => timer.refresh())
  pipeline(body, output, () => clearTimeout(timer))
  return output
}

/** Asks the server. Gives up after `limit` milliseconds, be it in the middle of an attempt or between two. */
async function ask<T>(
  limit: number,
  send: (options: { readonly abortSignal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const { promise: timeout, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    controller.abort()
    reject(new Error(`The server has not answered in ${limit} ms`))
  }, limit)
  try {
    return await Promise.race([send({ abortSignal: controller.signal }), timeout])
  } catch (error) {
    throw storageError(error)
  } finally {
    clearTimeout(timer)
  }
}

const storageError = (cause: unknown): StorageFull | StorageUnavailable =>
  isFull(cause) ? new StorageFull({ cause }) : new StorageUnavailable({ cause })

const isFull = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (error.$metadata.httpStatusCode === 507 || quotaErrors.has(error.name))

const isMissing = (error: unknown): boolean =>
  error instanceof StorageUnavailable && error.cause instanceof NoSuchKey

/** False for an upload that was completed or aborted since it was listed. */
const abortIfThere = async (abort: () => Promise<unknown>): Promise<boolean> => {
  try {
    await abort()
    return true
  } catch (error) {
    if (error instanceof StorageUnavailable && error.cause instanceof NoSuchUpload) return false
    throw error
  }
}
