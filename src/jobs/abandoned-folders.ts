import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Deletes the folders of leases that nothing has any more: what processes left behind that were killed. The leases are read after the
 * folders, because a process has a lease before it makes a folder.
 */
export const removeAbandonedFolders = async (
  folder: string,
  selectLeases: () => Promise<ReadonlySet<string>>,
): Promise<void> => {
  const names = await readdir(folder).catch(() => [])
  const leases = await selectLeases()
  for (const name of names)
    if (!leases.has(name)) await rm(join(folder, name), { recursive: true, force: true })
}
