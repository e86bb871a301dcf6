import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Deletes the folders that are named after nothing that runs: what processes left behind that were killed. */
export const removeAbandonedFolders = async (folder: string, running: ReadonlySet<string>): Promise<void> => {
  for (const name of await readdir(folder).catch(() => []))
    if (!running.has(name)) await rm(join(folder, name), { recursive: true, force: true })
}
