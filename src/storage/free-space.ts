import { mkdir } from 'node:fs/promises'
import { folderMode, onDisk } from './disk/file-system.ts'
import { checkReserve } from './disk/folders.ts'

/**
 * Creates a folder outside of the storage, and checks that its disk has space for so many bytes besides the reserve.
 *
 * @throws StorageFull, StorageUnavailable
 */
export const openFolder = (folder: string, reserveBytes: number, bytes: number): Promise<void> =>
  onDisk(async () => {
    await mkdir(folder, { recursive: true, mode: folderMode })
    await checkReserve(folder, reserveBytes, bytes)
  })
