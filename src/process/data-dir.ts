import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ConfigError } from '../config/config.ts'

/**
 * Creates DATA_DIR and its parents if they are missing, readable by the user of this process only.
 *
 * @throws ConfigError when it cannot be created
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new ConfigError(`DATA_DIR ${dataDir} cannot be created: ${reason}`, { cause: error })
  }
}

// One folder at a time: a recursive mkdir never returns where folders cannot be created, as in /proc.
async function makeFolder(path: string): Promise<void> {
  if (await isFolder(path)) return
  const parent = dirname(path)
  if (parent !== path) await makeFolder(parent)
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it meanwhile.
    if (!(await isFolder(path))) throw error
  }
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null)
  return found?.isDirectory() ?? false
}
