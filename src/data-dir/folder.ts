import { lstat, open } from 'node:fs/promises'
import { hasCode } from './system-errors.ts'

/** Files that are not the service's, or that it may not use. Nothing was changed. */
export class FolderUnusable extends Error {
  override readonly name = 'FolderUnusable'

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(
      `${path} cannot be used: ${reason}. The user of the service must be able to read and write everything in DATA_DIR`,
      options,
    )
  }
}

/** Whether nothing has this path. @throws the error of the system if that cannot be found out */
export const isMissing = async (path: string): Promise<boolean> => {
  try {
    // A link that leads nowhere is there: its disk may not be mounted.
    await lstat(path)
    return false
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return true
    throw error
  }
}

/** Makes a rename or mkdir in a folder durable; syncing the file does not. Windows and some network file systems cannot do it. */
export const syncFolder = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return
  await using handle = await open(folder, 'r')
  await handle.sync().catch((error: unknown) => {
    if (!hasCode(error, 'EINVAL')) throw error
  })
}
