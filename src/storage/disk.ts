import type { Stats } from 'node:fs'
import { constants, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { discard, fileMode, moveDurably, onDisk, openExisting, readIfPresent } from './disk/file-system.ts'
import { incomingPathOf, noSpaceCheck, openDisk, pathOf } from './disk/folders.ts'
import { listFiles, listUnfinished, missingKeys } from './disk/listing.ts'
import { appendTo, completeFile } from './disk/resumable-files.ts'
import { storeFile, writeFile } from './disk/whole-files.ts'
import { newKey, ownerName } from './keys.ts'
import { destroy, handleEarlyErrors } from './source.ts'
import type { Storage } from './storage.ts'

interface DiskOptions {
  readonly reserveBytes?: number
  /** False to read files only: missing folders are errors. */
  readonly mayCreate?: boolean
}

/**
 * Stores files in a local folder, which is created if its parent exists. Files that would leave less than `reserveBytes` free
 * are refused: a database on the same disk fails when it is full.
 *
 * @throws StorageFull, StorageUnavailable when the folders cannot be created
 */
export async function diskStorage(
  folder: string,
  { reserveBytes = 0, mayCreate = true }: DiskOptions = {},
): Promise<Storage> {
  const disk = await openDisk(folder, { reserveBytes, mayCreate })
  const { root, incoming, checkSpace } = disk

  return {
    async put(source, options) {
      const { key = newKey() } = options
      handleEarlyErrors(source)
      return { key, ...(await storeFile(disk, key, source, options)) }
    },

    async *append(file, offset, source, options) {
      handleEarlyErrors(source)
      try {
        yield* appendTo(disk, file, offset, source, options)
      } finally {
        destroy(source)
      }
    },

    complete: (file) => completeFile(disk, file),

    async open(key, range) {
      const handle = await openExisting(key, pathOf(disk, key), constants.O_RDONLY)
      return handle.createReadStream(range)
    },

    async remove(key) {
      const path = pathOf(disk, key)
      await onDisk(() => rm(path, { force: true }))
    },

    async removeUnfinished(key) {
      const paths = [incomingPathOf(disk, key), pathOf(disk, key)]
      await onDisk(() => Promise.all(paths.map((path) => rm(path, { force: true }))))
    },

    list: () => listFiles(disk),

    missing: (keys) => missingKeys(disk, keys),

    listUnfinished: () => listUnfinished(disk),

    now: () => withProbe(incoming, ({ mtime }) => mtime),

    readOwner: () => onDisk(() => readIfPresent(join(root, ownerName))),

    async writeOwner(owner) {
      const temporary = join(root, `${ownerName}.new`)
      try {
        await onDisk(() => rm(temporary, { force: true }))
        await writeFile(temporary, Readable.from([Buffer.from(owner)]), Infinity, noSpaceCheck)
        await onDisk(() => moveDurably(temporary, join(root, ownerName)))
      } catch (error) {
        await discard(temporary)
        throw error
      }
    },

    async check() {
      await checkSpace(0)
      await withProbe(incoming, () => undefined)
    },

    async close() {},
  }
}

/** Writes a file to a folder and removes it. Of one byte: an empty file could be created even on a full disk. */
async function withProbe<T>(folder: string, use: (written: Stats) => T): Promise<T> {
  const probe = join(folder, newKey())
  try {
    return await onDisk(async () => {
      const handle = await open(probe, 'wx', fileMode)
      try {
        await handle.writeFile('.')
        return use(await handle.stat())
      } finally {
        await handle.close()
      }
    })
  } finally {
    await discard(probe)
  }
}
