import { NoSuchKey, NotFound, S3Client, S3ServiceException } from '@aws-sdk/client-s3'
import { withTimeout } from '../../concurrency/deadline.ts'
import type { S3Location } from '../../config/values.ts'
import { StorageFull, StorageUnavailable } from '../storage.ts'

/** Timeouts in milliseconds. They include retries unless they are per attempt. */
export interface S3Limits {
  /** To connect, per attempt. */
  readonly connect: number
  /** Without a byte in either direction, per attempt. Waiting for a slow reader does not count. */
  readonly silence: number
  /** For a request without a file. */
  readonly answer: number
  /** To upload a part. */
  readonly part: number
  /** To complete an upload. Some servers copy the parts, and send nothing until they have finished. */
  readonly completion: number
  /** For a readiness check. */
  readonly check: number
}

export const defaultLimits: S3Limits = {
  connect: 3_000,
  silence: 10_000,
  answer: 20_000,
  part: 120_000,
  completion: 120_000,
  check: 5_000,
}

/** Includes the first attempt. Requests are retried after a 5xx, a lost connection or silence. */
const maxAttempts = 3

/** Error codes of an exceeded quota: Ceph and Versity, MinIO. A full disk is status 507. */
const quotaErrors: ReadonlySet<string> = new Set(['QuotaExceeded', 'XMinioAdminBucketQuotaExceeded'])

/** The bucket and prefix of the files, with the clients that send requests. Every request is sent through `ask`. */
export interface S3 {
  readonly bucket: string
  /** The names of all objects begin with it. */
  readonly prefix: string
  readonly limits: S3Limits
  readonly client: S3Client
  /** For requests that can be silent for long: downloads with a slow reader, and completions of uploads. */
  readonly longRunningClient: S3Client
}

/** Opens the clients. The AWS SDK finds the credentials. */
export const openS3 = (location: S3Location, limits: S3Limits): S3 => ({
  bucket: location.bucket,
  prefix: location.prefix,
  limits,
  client: openClient(location, limits, limits.silence),
  longRunningClient: openClient(location, limits, 0),
})

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
    // The SDK would open a new connection per part.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: limits.connect,
      socketTimeout,
      throwOnRequestTimeout: true,
      // Requests are already bounded; a limit on sockets would let slow readers block other requests.
      httpAgent: { maxSockets: Infinity },
      httpsAgent: { maxSockets: Infinity },
    },
  })

/**
 * Sends a request, and aborts it after `limit` milliseconds, retries included.
 *
 * @throws StorageFull, StorageUnavailable; the original error is its `cause`
 */
export async function ask<T>(
  limit: number,
  send: (options: { readonly abortSignal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const answer = send({ abortSignal: controller.signal })
  try {
    return await withTimeout(limit, answer, () => new Error(`The server has not answered in ${limit} ms`))
  } catch (error) {
    controller.abort()
    throw storageError(error)
  }
}

const storageError = (cause: unknown): StorageFull | StorageUnavailable =>
  isFull(cause) ? new StorageFull({ cause }) : new StorageUnavailable({ cause })

const isFull = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (error.$metadata.httpStatusCode === 507 || quotaErrors.has(error.name))

/** Whether `ask` failed because there is no such object. */
export const isMissing = (error: unknown): boolean =>
  error instanceof StorageUnavailable && (error.cause instanceof NoSuchKey || error.cause instanceof NotFound)
