import { expectKey, ownerName } from '../keys.ts'
import type { S3 } from './client.ts'

/**
 * The names of objects, after the prefix:
 *
 *     <key>                  a complete file
 *     incoming/<key>/<end>   a tail: the bytes of an unfinished file that do not fill a part; `end` is the offset after them
 *     owner.json             the owner record
 *     clock                  written to learn the time of the server's clock
 *
 * `incoming`, `owner.json` and `clock` cannot be keys.
 */

/** The name of an object, as the commands of the SDK take it. */
export interface ObjectName {
  readonly Bucket: string
  readonly Key: string
}

export const objectOf = ({ bucket, prefix }: S3, key: string): ObjectName => ({
  Bucket: bucket,
  Key: `${prefix}${expectKey(key)}`,
})

export const ownerObject = ({ bucket, prefix }: S3): ObjectName => ({
  Bucket: bucket,
  Key: `${prefix}${ownerName}`,
})

export const clockObject = ({ bucket, prefix }: S3): ObjectName => ({
  Bucket: bucket,
  Key: `${prefix}clock`,
})

/** The beginning of the names of all tails. */
export const incomingPrefix = ({ prefix }: S3): string => `${prefix}incoming/`

/** The beginning of the names of a file's tails. */
export const tailsPrefix = (s3: S3, key: string): string => `${incomingPrefix(s3)}${expectKey(key)}/`

export const tailOf = (s3: S3, key: string, end: number): ObjectName => ({
  Bucket: s3.bucket,
  Key: `${tailsPrefix(s3, key)}${end}`,
})
