import { lstat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isKey } from '../keys.ts'
import type { ListedFile } from '../storage.ts'
import { filesIn, modificationTime, onDisk } from './file-system.ts'
import { type Disk, pathOf, shards } from './folders.ts'

/** The complete files. */
export async function* listFiles({ root }: Disk): AsyncGenerator<ListedFile> {
  for (const shard of shards) {
    for await (const { name, modifiedAt } of filesIn(join(root, shard))) {
      if (isKey(name)) yield { key: name, modifiedAt }
    }
  }
}

/** The keys without a file. */
export async function missingKeys(disk: Disk, keys: readonly string[]): Promise<string[]> {
  const missing: string[] = []
  for (const key of keys) {
    const path = pathOf(disk, key)
    if (!(await onDisk(() => isStored(path)))) missing.push(key)
  }
  return missing
}

/** The incomplete files. Their modification time is that of the last write. */
export async function* listUnfinished({ incoming }: Disk): AsyncGenerator<ListedFile> {
  for await (const { name, modifiedAt } of filesIn(incoming)) {
    if (isKey(name)) yield { key: name, modifiedAt }
  }
}

/** Throws if the folder is missing: the disk is then unavailable, and whether the file is stored is unknown. */
async function isStored(path: string): Promise<boolean> {
  if ((await modificationTime(path)) !== null) return true
  await lstat(dirname(path))
  return false
}
