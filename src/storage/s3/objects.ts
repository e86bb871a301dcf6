import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { createHash } from 'node:crypto'
import { PassThrough, pipeline, Readable } from 'node:stream'
import { type ByteRange, FileMissing, StorageUnavailable } from '../storage.ts'
import { ask, isMissing, type S3 } from './client.ts'
import type { ObjectName } from './names.ts'

/** Stores an object with one request. The server checks the digest. */
export const putObject = (
  { client, limits }: S3,
  object: ObjectName,
  Body: Buffer,
  digest = sha256Of(Body),
): Promise<unknown> => {
  const ChecksumSHA256 = digest.toString('base64')
  const put = new PutObjectCommand({ ...object, Body, ChecksumSHA256 })
  return ask(limits.part, (options) => client.send(put, options))
}

/**
 * Reads an object, or a range inside it. The stream fails when the server is silent; its errors are not mapped.
 *
 * @throws FileMissing with `key` when there is no such object
 */
export const readObject = async (
  { longRunningClient, limits }: S3,
  object: ObjectName,
  key: string,
  range?: ByteRange,
): Promise<Readable> => {
  const Range = range && `bytes=${range.start}-${range.end}`
  const get = new GetObjectCommand({ ...object, Range })
  const requestTimeout = limits.silence
  const { Body } = await ask(limits.answer, (options) =>
    longRunningClient.send(get, { ...options, requestTimeout }),
  ).catch((error: unknown) => {
    throw isMissing(error) ? new FileMissing(key, { cause: error }) : error
  })
  if (!(Body instanceof Readable))
    throw new StorageUnavailable({ cause: new Error('The response has no body') })
  return failWhenSilent(Body, limits.silence)
}

/** Bytes. Null if there is no such object. */
export const sizeOf = async ({ client, limits }: S3, object: ObjectName): Promise<number | null> => {
  try {
    const head = new HeadObjectCommand(object)
    return (await ask(limits.answer, (options) => client.send(head, options))).ContentLength ?? 0
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** When an object was stored, by the server's clock. */
export const modificationTime = async ({ client, limits }: S3, object: ObjectName): Promise<Date> => {
  const head = new HeadObjectCommand(object)
  const { LastModified } = await ask(limits.answer, (options) => client.send(head, options))
  if (LastModified === undefined)
    throw new StorageUnavailable({ cause: new Error('The response has no Last-Modified') })
  return LastModified
}

/** Removing a missing object succeeds. */
export const removeObject = ({ client, limits }: S3, object: ObjectName): Promise<unknown> =>
  ask(limits.answer, (options) => client.send(new DeleteObjectCommand(object), options))

/** The objects whose names begin with `Prefix`, after a name if one is given, ordered by name. */
export async function* objectsBelow({ client, bucket, limits }: S3, Prefix: string, StartAfter?: string) {
  let ContinuationToken: string | undefined
  do {
    const list = new ListObjectsV2Command({ Bucket: bucket, Prefix, StartAfter, ContinuationToken })
    const page = await ask(limits.answer, (options) => client.send(list, options))
    for (const { Key = '', LastModified } of page.Contents ?? []) yield { Key, LastModified }
    ContinuationToken = page.NextContinuationToken
  } while (ContinuationToken !== undefined)
}

/** Fails when the server sends nothing for `limit` milliseconds while the reader waits. */
const failWhenSilent = (body: Readable, limit: number): Readable => {
  const output = new PassThrough()
  const timer = setTimeout(() => {
    if (output.writableNeedDrain) timer.refresh()
    else body.destroy(new Error(`The server has sent no data for ${limit} ms`))
  }, limit)
  body.on('data', () => timer.refresh())
  output.on('drain', () => timer.refresh())
  pipeline(body, output, () => clearTimeout(timer))
  return output
}

const sha256Of = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()
