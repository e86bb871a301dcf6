import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  type MultipartUpload,
  NoSuchUpload,
  type Part as StoredPart,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { StorageUnavailable } from '../storage.ts'
import { ask, type S3 } from './client.ts'
import type { ObjectName } from './names.ts'

/** S3's limits on multipart uploads. The last part may be smaller than `minPartSize`. */
const minPartSize = 5 * 1024 * 1024
const maxParts = 10_000

/** The smallest part size for a file of `maxBytes`, since each upload buffers one part. */
export const partSizeFor = (maxBytes: number): number => Math.max(minPartSize, Math.ceil(maxBytes / maxParts))

export const createUpload = async (
  { client, limits }: S3,
  object: ObjectName,
): Promise<string | undefined> => {
  const create = new CreateMultipartUploadCommand({ ...object, ChecksumAlgorithm: 'CRC32' })
  return (await ask(limits.answer, (options) => client.send(create, options))).UploadId
}

/** Stores a part, which replaces one with the same number. Numbers begin at 1. */
export const uploadPart = async (
  { client, limits }: S3,
  object: ObjectName,
  UploadId: string | undefined,
  PartNumber: number,
  Body: Buffer,
): Promise<CompletedPart> => {
  const part = new UploadPartCommand({ ...object, UploadId, PartNumber, Body })
  const { ETag, ChecksumCRC32 } = await ask(limits.part, (options) => client.send(part, options))
  return { PartNumber, ETag, ChecksumCRC32 }
}

/** Creates the object from its parts. The upload no longer exists afterwards. */
export const completeUpload = async (
  { longRunningClient, limits }: S3,
  object: ObjectName,
  UploadId: string | undefined,
  Parts: CompletedPart[],
): Promise<void> => {
  const complete = new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } })
  const requestTimeout = limits.completion
  await ask(limits.completion, (options) => longRunningClient.send(complete, { ...options, requestTimeout }))
}

/** Removes an upload and its parts. */
export const abortUpload = (
  { client, limits }: S3,
  object: ObjectName,
  UploadId: string | undefined,
): Promise<unknown> =>
  ask(limits.answer, (options) =>
    client.send(new AbortMultipartUploadCommand({ ...object, UploadId }), options),
  )

/** The unfinished uploads of objects whose names begin with `Prefix`, ordered by name. */
export async function* uploadsBelow(
  { client, bucket, limits }: S3,
  Prefix: string,
): AsyncGenerator<MultipartUpload> {
  let markers: { readonly KeyMarker?: string | undefined; readonly UploadIdMarker?: string | undefined } = {}
  for (let isTruncated = true; isTruncated;) {
    const list = new ListMultipartUploadsCommand({ Bucket: bucket, Prefix, ...markers })
    const page = await ask(limits.answer, (options) => client.send(list, options))
    yield* page.Uploads ?? []
    markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
    isTruncated = page.IsTruncated === true
  }
}

/** The ids of an object's uploads. */
export const uploadsOf = async (s3: S3, { Key }: ObjectName): Promise<string[]> => {
  const found = await Array.fromAsync(uploadsBelow(s3, Key))
  return found.flatMap((upload) => (upload.Key === Key ? (upload.UploadId ?? []) : []))
}

/** The upload of a file; undefined if there is none. A lost response can leave two; the first one is used. */
export const findUpload = async (s3: S3, object: ObjectName): Promise<string | undefined> =>
  (await uploadsOf(s3, object)).toSorted()[0]

/** Searches again after creating an upload, so that concurrent creators agree on the same one. */
export const findOrCreateUpload = async (s3: S3, object: ObjectName): Promise<string | undefined> => {
  const found = await findUpload(s3, object)
  if (found !== undefined) return found
  const made = await createUpload(s3, object)
  return (await findUpload(s3, object)) ?? made
}

export const partsOfUpload = async (
  { client, limits }: S3,
  object: ObjectName,
  UploadId: string,
): Promise<StoredPart[]> => {
  const parts: StoredPart[] = []
  let PartNumberMarker: string | undefined
  do {
    const list = new ListPartsCommand({ ...object, UploadId, PartNumberMarker })
    const page = await ask(limits.answer, (options) => client.send(list, options))
    parts.push(...(page.Parts ?? []))
    PartNumberMarker = page.IsTruncated === true ? page.NextPartNumberMarker : undefined
  } while (PartNumberMarker !== undefined)
  return parts
}

/** Ignores an upload that was completed or aborted since it was listed. */
export const ignoreMissingUpload = async (work: () => Promise<unknown>): Promise<void> => {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof StorageUnavailable && error.cause instanceof NoSuchUpload)) throw error
  }
}
