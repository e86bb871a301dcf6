import { lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder } from '../../data-dir/folder.ts'
import { FileMissing, isFull, StorageFull, StorageUnavailable } from '../storage.ts'

export const folderMode = 0o700
export const fileMode = 0o600

/** Converts the errors of a file operation to storage errors. Errors of the source are passed on unchanged. */
export async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof FileMissing || error instanceof StorageFull ? error : storageError(error)
  }
}

function storageError(cause: unknown): StorageFull | StorageUnavailable {
  return isFull(cause) ? new StorageFull({ cause }) : new StorageUnavailable({ cause })
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Returns whether the folder is new. */
export async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: folderMode })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

export async function readIfPresent(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

export async function openExisting(key: string, path: string, flags: number): Promise<FileHandle> {
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

export async function moveDurably(from: string, to: string): Promise<void> {
  await rename(from, to)
  await syncFolder(dirname(to))
}

/** Removes files. Ignores errors: the caller reports the original error, and a background job removes leftovers. */
export async function discard(...paths: string[]): Promise<void> {
  await Promise.allSettled(paths.map((path) => rm(path, { force: true })))
}

/** Null if there is no such file. */
export async function sizeOf(path: string): Promise<number | null> {
  return onDisk(async () => {
    try {
      return (await lstat(path)).size
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return null
      throw error
    }
  })
}

/** Null if the path is not a file or was removed in the meantime. */
export async function modificationTime(path: string): Promise<Date | null> {
  try {
    const found = await lstat(path)
    return found.isFile() ? found.mtime : null
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

export async function* filesIn(folder: string): AsyncGenerator<{ name: string; modifiedAt: Date }> {
  for (const name of await onDisk(() => readdir(folder))) {
    const modifiedAt = await onDisk(() => modificationTime(join(folder, name)))
    if (modifiedAt) yield { name, modifiedAt }
  }
}
