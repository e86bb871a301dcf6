import type { Database } from '../db/engine/client.ts'
import { selectAttachmentsOf, selectReferenced, selectUnreferenced } from '../db/files.ts'
import type { ListedFile, Storage } from '../storage/storage.ts'

/** How many files are compared at a time, so that memory does not grow with their number. */
const batch = 500

/** Those of the files that no row names, batch by batch. A young one may be of an upload whose row is still to come. */
export async function* filesWithoutRows(
  db: Database,
  listed: AsyncIterable<ListedFile>,
): AsyncGenerator<readonly ListedFile[]> {
  for await (const files of inBatches(listed)) {
    const keys = files.map(({ key }) => key)
    const unreferenced = new Set(await selectUnreferenced(db, keys))
    yield files.filter(({ key }) => unreferenced.has(key))
  }
}

/** The ids of all attachments whose file is missing, batch by batch. */
export async function* attachmentsWithoutFiles(
  db: Database,
  storage: Storage,
): AsyncGenerator<readonly string[]> {
  for (let last: string | undefined = ''; last !== undefined;) {
    const keys: readonly string[] = await selectReferenced(db, last, batch)
    const missing = await storage.missing(keys)
    // A row goes before its file: one that is still there has lost it.
    if (missing.length > 0) yield await selectAttachmentsOf(db, missing)
    last = keys.at(-1)
  }
}

/** The items, some hundreds at a time. */
export async function* inBatches<T>(items: AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  let gathered: T[] = []
  for await (const item of items) {
    gathered.push(item)
    if (gathered.length < batch) continue
    yield gathered
    gathered = []
  }
  if (gathered.length > 0) yield gathered
}
