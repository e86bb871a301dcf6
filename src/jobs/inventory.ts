import type { Database } from '../db/engine/client.ts'
import { selectAttachmentIds, selectAttachmentKeys, selectUnreferenced } from '../db/files/deletions.ts'
import type { ListedFile, Storage } from '../storage/storage.ts'

/** Time limit for receiving a request, in milliseconds. */
export const uploadTimeout = 600_000

/** Files per batch. Bounds memory. */
const batchSize = 500

/** Stored files without a row, in batches. A recent file may belong to a request that has not inserted its row yet. */
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

/** Ids of attachments without a file, in batches. */
export async function* attachmentsWithoutFiles(
  db: Database,
  storage: Storage,
): AsyncGenerator<readonly string[]> {
  for (let last: string | undefined = ''; last !== undefined;) {
    const keys: readonly string[] = await selectAttachmentKeys(db, { after: last, limit: batchSize })
    const missing = await storage.missing(keys)
    // A deletion removes the row first, so a row that is still there has lost its file.
    if (missing.length > 0) yield await selectAttachmentIds(db, missing)
    last = keys.at(-1)
  }
}

export async function* inBatches<T>(items: AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  let batch: T[] = []
  for await (const item of items) {
    batch.push(item)
    if (batch.length < batchSize) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
