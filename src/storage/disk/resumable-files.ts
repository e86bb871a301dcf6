import { constants, rename } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncFolder } from '../../data-dir/folder.ts'
import { deferFailure } from '../source.ts'
import { FileMissing, FileTooLarge, type Storage, type UnfinishedFile } from '../storage.ts'
import { onDisk, openExisting, sizeOf } from './file-system.ts'
import { type CheckSpace, type Disk, incomingPathOf, pathOf, reserveCheckEvery } from './folders.ts'

/** Bytes of an upload between two syncs: the maximum that a crash loses. */
const syncEvery = 8 * 1024 * 1024

type AppendOptions = Parameters<Storage['append']>[3]

/** See `Storage.append`. The first write syncs the folder too, so that a crash cannot lose the file after its offset was yielded. */
export async function* appendTo(
  disk: Disk,
  file: UnfinishedFile,
  offset: number,
  source: AsyncIterable<Uint8Array>,
  options: AppendOptions,
): AsyncGenerator<number> {
  await disk.checkSpace(file.size - offset)
  const handle = await openAt(incomingPathOf(disk, file.key), file, offset)
  try {
    if (offset === 0) await onDisk(() => syncFolder(disk.incoming))
    yield* writeTo(handle, file, offset, source, { ...options, checkSpace: disk.checkSpace })
  } finally {
    await onDisk(() => handle.close())
  }
}

/** See `Storage.complete`. If the file was moved before a crash, only the sync of its folder is repeated. */
export async function completeFile(disk: Disk, file: UnfinishedFile): Promise<void> {
  const temporary = incomingPathOf(disk, file.key)
  const path = pathOf(disk, file.key)
  if ((await sizeOf(temporary)) === file.size) await onDisk(() => rename(temporary, path))
  else if ((await sizeOf(path)) !== file.size) throw new FileMissing(file.key)
  await onDisk(() => syncFolder(dirname(path)))
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
async function* writeTo(
  handle: FileHandle,
  { size }: UnfinishedFile,
  offset: number,
  source: AsyncIterable<Uint8Array>,
  { whole, hold, checkSpace }: AppendOptions & { readonly checkSpace: CheckSpace },
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
