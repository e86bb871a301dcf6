import { HeadBucketCommand } from '@aws-sdk/client-s3'
import { buffer } from 'node:stream/consumers'
import type { S3Location } from '../config/values.ts'
import { newKey, ownerName } from './keys.ts'
import { ask, defaultLimits, openS3, type S3Limits } from './s3/client.ts'
import { listFiles, listUnfinished, missingKeys } from './s3/listing.ts'
import { clockObject, objectOf, ownerObject } from './s3/names.ts'
import { modificationTime, putObject, readObject, removeObject } from './s3/objects.ts'
import { appendTo, completeFile, removeUnfinished } from './s3/resumable-files.ts'
import { storeFile } from './s3/whole-files.ts'
import { destroy, handleEarlyErrors } from './source.ts'
import { FileMissing, type Storage, StorageUnavailable } from './storage.ts'

/**
 * Stores files as objects named `<prefix><key>`: with one PUT if they fit into a part, otherwise with a multipart upload. Either
 * way, an object exists only when it is complete.
 */
export const s3Storage = (location: S3Location, limits: S3Limits = defaultLimits): Storage => {
  const s3 = openS3(location, limits)
  const { bucket: Bucket, client, longRunningClient } = s3

  return {
    async put(source, { maxBytes, key = newKey() }) {
      handleEarlyErrors(source)
      return { key, ...(await storeFile(s3, objectOf(s3, key), source, maxBytes)) }
    },

    async *append(file, offset, source, options) {
      handleEarlyErrors(source)
      try {
        yield* appendTo(s3, file, offset, source, options)
      } finally {
        destroy(source)
      }
    },

    complete: (file) => completeFile(s3, file),

    async open(key, range) {
      return readObject(s3, objectOf(s3, key), key, range)
    },

    async remove(key) {
      await removeObject(s3, objectOf(s3, key))
    },

    removeUnfinished: (key) => removeUnfinished(s3, key),

    list: () => listFiles(s3),

    missing: (keys) => missingKeys(s3, keys),

    listUnfinished: () => listUnfinished(s3),

    async now() {
      await putObject(s3, clockObject(s3), Buffer.from('.'))
      return modificationTime(s3, clockObject(s3))
    },

    async readOwner() {
      try {
        const body = await readObject(s3, ownerObject(s3), ownerName)
        return (await buffer(body)).toString()
      } catch (error) {
        if (error instanceof FileMissing) return null
        throw error instanceof StorageUnavailable ? error : new StorageUnavailable({ cause: error })
      }
    },

    async writeOwner(owner) {
      await putObject(s3, ownerObject(s3), Buffer.from(owner))
    },

    async check() {
      await ask(limits.check, (options) => client.send(new HeadBucketCommand({ Bucket }), options))
    },

    async close() {
      client.destroy()
      longRunningClient.destroy()
    },
  }
}
