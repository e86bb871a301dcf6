import { createHash } from 'node:crypto'
import { constants, lstat, open, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import {
  discard,
  fileMode,
  filesIn,
  modificationTime,
  moveDurably,
  onDisk,
  openExisting,
  readIfPresent,
  sizeOf,
  syncFolder,
} from './disk/file-system.ts'
import { type CheckSpace, incomingPathOf, noSpaceCheck, openDisk, pathOf, shards } from './disk/folders.ts'
import { isKey, newKey, ownerName } from './keys.ts'
import { destroy, deferFailure, handleEarlyErrors } from './source.ts'
import { FileMissing, FileTooLarge } from './storage.ts'
import type { Storage, StoredFile, UnfinishedFile } from './storage.ts'

/** Bytes of an upload between two syncs: the maximum that a crash loses. */
const syncEvery = 8 * 1024 * 1024

/** Bytes between two checks of the free space, which concurrent uploads reduce too. */
const reserveCheckEvery = 8 * 1024 * 1024

/**
 * Stores files in a local folder, which is created if its parent exists. Files that would leave less than `reserveBytes` free
 * are refused: a database on the same disk fails when it is full.
 *
 * @throws StorageFull, StorageUnavailable when the folders cannot be created
 */
export async function diskStorage(
  folder: string,
  { reserveBytes = 0 }: { readonly reserveBytes?: number } = {},
): Promise<Storage> {
  const disk = await openDisk(folder, reserveBytes)
  const { root, incoming, checkSpace } = disk

  return {
    async put(source, { maxBytes, minBytes = 0 }) {
      const key = newKey()
      const temporary = incomingPathOf(disk, key)
      const path = pathOf(disk, key)
      handleEarlyErrors(source)
      try {
        await checkSpace(minBytes)
        const written = await writeFile(temporary, source, maxBytes, checkSpace)
        await onDisk(() => moveDurably(temporary, path))
        return { key, ...written }
      } catch (error) {
        destroy(source)
        await discard(temporary, path)
        throw error
      }
    },

    async *append(file, offset, source, options) {
      handleEarlyErrors(source)
      try {
        await checkSpace(file.size - offset)
        const handle = await openAt(incomingPathOf(disk, file.key), file, offset)
        try {
          if (offset === 0) await onDisk(() => syncFolder(incoming))
          yield* appendTo(handle, file, offset, source, { ...options, checkSpace })
        } finally {
          await onDisk(() => handle.close())
        }
      } finally {
        destroy(source)
      }
    },

    async complete(file) {
      const temporary = incomingPathOf(disk, file.key)
      const path = pathOf(disk, file.key)
      if ((await sizeOf(temporary)) === file.size) await onDisk(() => rename(temporary, path))
      else if ((await sizeOf(path)) !== file.size) throw new FileMissing(file.key)
      await onDisk(() => syncFolder(dirname(path)))
    },

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

    async *list() {
      for (const shard of shards) {
        for await (const { name, modifiedAt } of filesIn(join(root, shard))) {
          if (isKey(name)) yield { key: name, modifiedAt }
        }
      }
    },

    async missing(keys) {
      const missing: string[] = []
      for (const key of keys) {
        const path = pathOf(disk, key)
        if (!(await onDisk(() => isStored(path)))) missing.push(key)
      }
      return missing
    },

    async *listUnfinished() {
      for await (const { name, modifiedAt } of filesIn(incoming)) {
        if (isKey(name)) yield { key: name, modifiedAt }
      }
    },

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
      const probe = join(incoming, newKey())
      try {
        await onDisk(() => writeProbe(probe))
      } finally {
        await discard(probe)
      }
    },

    async close() {},
  }
}

async function writeFile(
  path: string,
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
  checkSpace: CheckSpace,
): Promise<Pick<StoredFile, 'size' | 'sha256'>> {
  const handle = await onDisk(() => open(path, 'wx', fileMode))
  try {
    const written = await copy(source, handle, maxBytes, checkSpace)
    await onDisk(() => handle.sync())
    return written
  } finally {
    await onDisk(() => handle.close())
  }
}

async function copy(
  source: AsyncIterable<Uint8Array>,
  handle: FileHandle,
  maxBytes: number,
  checkSpace: CheckSpace,
) {
  const hash = createHash('sha256')
  let size = 0
  let checked = 0
  for await (const chunk of source) {
    size += chunk.byteLength
    if (size > maxBytes) throw new FileTooLarge(maxBytes)
    if (size - checked >= reserveCheckEvery) {
      await checkSpace(0)
      checked = size
    }
    hash.update(chunk)
    await onDisk(() => handle.writeFile(chunk))
  }
  return { size, sha256: hash.digest('hex') }
}

/** Opens an unfinished file, truncated to `offset` bytes. The first write creates it. */
async function openAt(path: string, { key }: UnfinishedFile, offset: number): Promise<FileHandle> {
  const flags = offset === 0 ? constants.O_RDWR | constants.O_CREAT : constants.O_RDWR
  const handle = await openExisting(key, path, flags)
  try {
    const { size } = await onDisk(() => handle.stat())
    if (size < offset) throw new FileMissing(key)
    await onDisk(() => handle.truncate(offset))
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Writes at explicit positions rather than at the end, so that a delayed writer cannot corrupt a later one's bytes. */
async function* appendTo(
  handle: FileHandle,
  { size }: UnfinishedFile,
  offset: number,
  source: AsyncIterable<Uint8Array>,
  { whole, hold, checkSpace }: Parameters<Storage['append']>[3] & { readonly checkSpace: CheckSpace },
): AsyncGenerator<number> {
  const input = deferFailure(source)
  let written = offset
  let synced = offset
  let checked = offset
  for await (const chunk of input.chunks) {
    if (written + chunk.byteLength > size) throw new FileTooLarge(size)
    await hold()
    await onDisk(() => writeAt(handle, chunk, written))
    written += chunk.byteLength
    if (written - checked >= reserveCheckEvery) {
      await checkSpace(0)
      checked = written
    }
    if (whole || written - synced < syncEvery) continue
    await onDisk(() => handle.sync())
    synced = written
    yield synced
  }
  if (whole) input.rethrow()
  await onDisk(() => handle.sync())
  yield written
  input.rethrow()
}

async function writeAt(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, position + done)
    done += bytesWritten
  }
}

/** Writes one byte: an empty file could be created even on a full disk. */
async function writeProbe(path: string): Promise<void> {
  const handle = await open(path, 'wx', fileMode)
  try {
    await handle.writeFile('.')
  } finally {
    await handle.close()
  }
}

/** Throws if the folder is missing: the disk is then unavailable, and whether the file is stored is unknown. */
async function isStored(path: string): Promise<boolean> {
  if ((await modificationTime(path)) !== null) return true
  await lstat(dirname(path))
  return false
}
