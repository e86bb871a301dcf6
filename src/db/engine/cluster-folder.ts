import { access, constants, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
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

/** The folder of the embedded database, which is PostgreSQL's data directory. */
export const clusterFolder = (dataDir: string): string => join(dataDir, 'postgres')

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

/**
 * Whether a folder has a database. Only a missing or an empty folder has none: a new database takes the place of nothing else.
 *
 * @throws FolderUnusable
 */
export const hasCluster = async (folder: string): Promise<boolean> => {
  try {
    if (await isMissing(folder)) return false
    const names = await readdir(folder)
    if (names.length === 0) return false
    if (!names.includes('PG_VERSION')) throw new Error('it contains files, but no database')
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    for (const name of ['PG_VERSION', 'global/pg_control'])
      await access(join(folder, name), constants.R_OK | constants.W_OK)
    return true
  } catch (error) {
    throw new FolderUnusable(folder, error instanceof Error ? error.message : String(error), { cause: error })
  }
}
