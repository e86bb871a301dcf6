import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { onlyRow, statement } from './engine/statement.ts'

const claim = statement(
  { limit: 'int', retry_after: 'int' },
  { storage_key: 'text', is_unfinished: 'bool' },
  (p) => sql`
    with due as materialized (
      select storage_key from file_deletions where due_at <= now() order by due_at limit ${p.limit}
      for update skip locked
    )
    update file_deletions set due_at = now() + ${p.retry_after} * interval '1 millisecond'
    from due where file_deletions.storage_key = due.storage_key
    returning file_deletions.storage_key, is_unfinished`,
)

/** A file whose row is gone, and whether it may be unfinished. */
export interface DeletedFile {
  readonly key: string
  readonly isUnfinished: boolean
}

/**
 * Files whose rows are gone, those that have waited longest. They are given to nobody else, and to nobody again
 * for `retryAfter` milliseconds: neither a file that cannot be removed nor a crash holds up the others.
 */
export const claimFileDeletions = async (
  db: Database,
  { limit, retryAfter }: { readonly limit: number; readonly retryAfter: number },
): Promise<DeletedFile[]> =>
  (await claim(db, { limit, retry_after: retryAfter })).map((row) => ({
    key: row.storage_key,
    isUnfinished: row.is_unfinished,
  }))

const finish = statement(
  { keys: 'text[]' },
  {},
  (p) => sql`delete from file_deletions where storage_key = any(${p.keys})`,
)

/** Takes files that have been removed out of the outbox. */
export const deleteFileDeletions = async (db: Database, keys: readonly string[]): Promise<void> => {
  await finish(db, { keys })
}

const waiting = statement(
  {},
  { count: 'int8', seconds: 'int8' },
  () => sql`
    select count(*) as count, coalesce(extract(epoch from now() - min(created_at)), 0)::bigint as seconds
    from file_deletions`,
)

/** How many files wait for their removal, and for how many seconds the oldest has. */
export const countFileDeletions = async (
  db: Database,
): Promise<{ readonly count: number; readonly seconds: number }> =>
  onlyRow(await waiting(db, {})) ?? { count: 0, seconds: 0 }

const unreferenced = statement(
  { keys: 'text[]' },
  { storage_key: 'text' },
  (p) => sql`
    select key as storage_key from unnest(${p.keys}) key
    where not exists (select from attachments where storage_key = key)
      and not exists (select from uploads where storage_key = key)
      and not exists (select from thumbnails where storage_key = key)
      and not exists (select from file_deletions where storage_key = key)`,
)

/** Those of the keys that no attachment, upload or thumbnail names, and that do not wait for their removal either. */
export const selectUnreferenced = async (db: Database, keys: readonly string[]): Promise<string[]> =>
  (await unreferenced(db, { keys })).map((row) => row.storage_key)

const named = statement(
  { key: 'text' },
  { is_named: 'bool' },
  (p) => sql`
    select exists (select from attachments where storage_key = ${p.key})
      or exists (select from uploads where storage_key = ${p.key}) as is_named`,
)

/** Whether an attachment or an upload has a key. */
export const isNamed = async (db: Database, key: string): Promise<boolean> =>
  onlyRow(await named(db, { key }))?.is_named === true

const referenced = statement(
  { after: 'text', limit: 'int' },
  { storage_key: 'text' },
  (p) => sql`
    select storage_key from attachments where storage_key > ${p.after} order by storage_key limit ${p.limit}`,
)

/** Keys that attachments name: the next ones behind the key `after`, in order. */
export const selectReferenced = async (db: Database, after: string, limit: number): Promise<string[]> =>
  (await referenced(db, { after, limit })).map((row) => row.storage_key)

const naming = statement(
  { keys: 'text[]' },
  { id: 'text' },
  (p) => sql`select id::text from attachments where storage_key = any(${p.keys}) order by storage_key`,
)

/** Ids of the attachments that name one of the keys. */
export const selectAttachmentsOf = async (db: Database, keys: readonly string[]): Promise<string[]> =>
  (await naming(db, { keys })).map((row) => row.id)
