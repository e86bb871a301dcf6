import { createHash } from 'node:crypto'
import { constants, lstat, mkdir, open, readdir, readFile, rename, rm, statfs } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { expectKey, isKey, newKey, ownerName } from './keys.ts'
import { destroy, deferFailure, handleEarlyErrors } from './source.ts'
import { FileMissing, FileTooLarge, StorageFull, StorageUnavailable } from './storage.ts'
import type { Storage, StoredFile, UnfinishedFile } from './storage.ts'

const folderMode = 0o700
const fileMode = 0o600
const shards = Array.from({ length: 256 }, (_, index) => index.toString(16).padStart(2, '0'))
const incomingFolder = 'incoming'

/** Bytes of an upload between two syncs: the maximum that a crash loses. */
const syncEvery = 8 * 1024 * 1024

/** Bytes between two checks of the free space, which concurrent uploads reduce too. */
const reserveCheckEvery = 8 * 1024 * 1024

/**
 * Stores files in a local folder, which is created if its parent exists. A file is written to `incoming/` and moved to
 * `<shard>/<key>` once it is complete and synced. The shard is the last two characters of the key, which are random. Files
 * that would leave less than `reserveBytes` free are refused: a database on the same disk fails when it is full.
 *
 * @throws StorageFull, StorageUnavailable when the folders cannot be created
 */
export async function diskStorage(
  folder: string,
  { reserveBytes = 0 }: { readonly reserveBytes?: number } = {},
): Promise<Storage> {
  const root = resolve(folder)
  const incoming = join(root, incomingFolder)
  await onDisk(() => makeFolders(root))
  const checkSpace: CheckSpace = (bytes) => onDisk(() => checkReserve(incoming, reserveBytes, bytes))

  return {
    async put(source, { maxBytes, minBytes = 0 }) {
      const key = newKey()
      const temporary = join(incoming, key)
      const path = pathOf(root, key)
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
        const handle = await openAt(join(incoming, expectKey(file.key)), file, offset)
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
      const temporary = join(incoming, expectKey(file.key))
      const path = pathOf(root, file.key)
      if ((await sizeOf(temporary)) === file.size) await onDisk(() => rename(temporary, path))
      else if ((await sizeOf(path)) !== file.size) throw new FileMissing(file.key)
      await onDisk(() => syncFolder(dirname(path)))
    },

    async open(key, range) {
      const handle = await openExisting(key, pathOf(root, key), constants.O_RDONLY)
      return handle.createReadStream(range)
    },

    async remove(key) {
      const path = pathOf(root, key)
      await onDisk(() => rm(path, { force: true }))
    },

    async removeUnfinished(key) {
      const paths = [join(incoming, expectKey(key)), pathOf(root, key)]
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
        const path = pathOf(root, key)
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

/**
 * Resolves if `bytes` more fit on the disk.
 *
 * @throws StorageFull
 */
type CheckSpace = (bytes: number) => Promise<void>

const noSpaceCheck: CheckSpace = async () => undefined

async function checkReserve(folder: string, reserveBytes: number, bytes: number): Promise<void> {
  if (reserveBytes === 0) return
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free - bytes >= reserveBytes) return
  const cause = new Error(
    `${free} bytes of the disk are free, of which ${reserveBytes} are reserved (DISK_RESERVE_BYTES)`,
  )
  throw new StorageFull({ cause })
}

function pathOf(root: string, key: string): string {
  return join(root, key.slice(-2), expectKey(key))
}

/**
 * Creates and syncs all shards in advance. With shards created on demand, an upload could be acknowledged before the shard
 * that a concurrent upload had just created was durable.
 */
async function makeFolders(root: string): Promise<void> {
  const isNew = await makeFolder(root)
  const present = new Set(await readdir(root))
  const missing = [incomingFolder, ...shards].filter((name) => !present.has(name))
  await Promise.all(missing.map((name) => makeFolder(join(root, name))))
  await syncFolder(root)
  if (isNew) await syncFolder(dirname(root))
}

/** Returns whether the folder is new. */
async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: folderMode })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

async function readIfPresent(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
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

async function moveDurably(from: string, to: string): Promise<void> {
  await rename(from, to)
  await syncFolder(dirname(to))
}

async function openExisting(key: string, path: string, flags: number): Promise<FileHandle> {
  return onDisk(async () => {
    try {
      return await open(path, flags, fileMode)
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
      // A missing shard means that the disk is missing, for example not mounted.
      await lstat(dirname(path))
      throw new FileMissing(key, { cause: error })
    }
  })
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

/** Null if there is no such file. */
async function sizeOf(path: string): Promise<number | null> {
  return onDisk(async () => {
    try {
      return (await lstat(path)).size
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return null
      throw error
    }
  })
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

async function* filesIn(folder: string): AsyncGenerator<{ name: string; modifiedAt: Date }> {
  for (const name of await onDisk(() => readdir(folder))) {
    const modifiedAt = await onDisk(() => modificationTime(join(folder, name)))
    if (modifiedAt) yield { name, modifiedAt }
  }
}

/** Throws if the folder is missing: the disk is then unavailable, and whether the file is stored is unknown. */
async function isStored(path: string): Promise<boolean> {
  if ((await modificationTime(path)) !== null) return true
  await lstat(dirname(path))
  return false
}

/** Null if the path is not a file or was removed in the meantime. */
async function modificationTime(path: string): Promise<Date | null> {
  try {
    const found = await lstat(path)
    return found.isFile() ? found.mtime : null
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Makes a rename or mkdir durable; syncing the file does not. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } catch (error) {
    if (!isUnsupportedSync(error)) throw error
  } finally {
    await handle.close()
  }
}

/** Windows (EPERM) and some network file systems (EINVAL) cannot sync folders. */
function isUnsupportedSync(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'EPERM' || code === 'EINVAL'
}

/** Removes files. Ignores errors: the caller reports the original error, and a background job removes leftovers. */
async function discard(...paths: string[]): Promise<void> {
  await Promise.allSettled(paths.map((path) => rm(path, { force: true })))
}

/** Converts the errors of a file operation to storage errors. Errors of the source are passed on unchanged. */
async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof FileMissing || error instanceof StorageFull ? error : storageError(error)
  }
}

function storageError(cause: unknown): StorageFull | StorageUnavailable {
  const code = codeOf(cause)
  const isFull = code === 'ENOSPC' || code === 'EDQUOT'
  return isFull ? new StorageFull({ cause }) : new StorageUnavailable({ cause })
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
