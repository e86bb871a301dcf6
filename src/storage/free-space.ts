import { mkdir } from 'node:fs/promises'
import { folderMode, onDisk } from './disk/file-system.ts'
import { checkReserve } from './disk/folders.ts'

/**
 * Checks that more than the reserve is free on the disk of a folder, which is created. For a folder outside of the storage.
 *
 * @throws StorageFull, StorageUnavailable
 */
export const createSpaceCheck =
  (folder: string, reserveBytes: number): (() => Promise<void>) =>
  () =>
    onDisk(async () => {
      await mkdir(folder, { recursive: true, mode: folderMode })
      await checkReserve(folder, reserveBytes, 0)
    })
