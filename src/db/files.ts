import { sql } from 'drizzle-orm'
import type { Database } from './client.ts'
import { statement } from './statement.ts'

const oldest = statement(
  { limit: 'int' },
  { storage_key: 'text' },
  (p) => sql`select storage_key from file_deletions order by created_at limit ${p.limit}`,
)

/** Keys of files whose rows are gone, the oldest first. */
export const selectFileDeletions = async (db: Database, limit: number): Promise<string[]> =>
  (await oldest(db, { limit })).map((row) => row.storage_key)

const finish = statement(
  { keys: 'text[]' },
  {},
  (p) => sql`delete from file_deletions where storage_key = any(${p.keys})`,
)

/** Takes files that have been removed out of the outbox. */
export const deleteFileDeletions = async (db: Database, keys: readonly string[]): Promise<void> => {
  await finish(db, { keys })
}

const unreferenced = statement(
  { keys: 'text[]' },
  { storage_key: 'text' },
  (p) => sql`
    select key as storage_key from unnest(${p.keys}) key
    where not exists (select from attachments where storage_key = key)
      and not exists (select from thumbnails where storage_key = key)`,
)

/** Those of the keys that no attachment and no thumbnail names. */
export const selectUnreferenced = async (db: Database, keys: readonly string[]): Promise<string[]> =>
  (await unreferenced(db, { keys })).map((row) => row.storage_key)
