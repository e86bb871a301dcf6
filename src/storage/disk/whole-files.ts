import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { destroy } from '../source.ts'
import { FileTooLarge, type Storage, type StoredFile } from '../storage.ts'
import { discard, fileMode, moveDurably, onDisk } from './file-system.ts'
import { type CheckSpace, type Disk, incomingPathOf, pathOf, reserveCheckEvery } from './folders.ts'

/** See `Storage.put`. The file is synced before it is moved to its shard, so that a shard has only complete files. */
export async function storeFile(
  disk: Disk,
  key: string,
  source: AsyncIterable<Uint8Array>,
  { maxBytes, minBytes = 0 }: Parameters<Storage['put']>[1],
): Promise<Pick<StoredFile, 'size' | 'sha256'>> {
  const temporary = incomingPathOf(disk, key)
  const path = pathOf(disk, key)
  try {
    await disk.checkSpace(minBytes)
    const written = await writeFile(temporary, source, maxBytes, disk.checkSpace)
    await onDisk(() => moveDurably(temporary, path))
    return written
  } catch (error) {
    destroy(source)
    await discard(temporary, path)
    throw error
  }
}

/** Creates a file, and syncs it. */
export async function writeFile(
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
