import { areFilesHeld } from './holds.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext } from '../statements/context.ts'
import { minStepBack } from '../shared/retention.ts'
import { query, statement } from '../statements/statement.ts'
import { sql } from '../schema/drizzle.ts'
import { attachments, exports, fileDeletions, imports, thumbnails, uploads } from '../schema/tables.ts'

/**
 * References from the database to stored files. `file_deletions` is the queue of files to remove: triggers add the file of
 * each deleted attachment, upload and thumbnail.
 */

const claim = statement(
  'file_deletions.claim',
  { limit: 'int', retry_after: 'int' },
  { storage_key: 'text', is_unfinished: 'bool' },
  (p) => {
    const postponed = sql`now() + ${p.retry_after} * interval '1 millisecond'`
    return sql`
      with due as materialized (
        select ${fileDeletions.storage_key} from file_deletions
        where (${fileDeletions.due_at} <= now() or ${fileDeletions.due_at} > ${postponed} + ${minStepBack}) and not ${areFilesHeld}
        order by ${fileDeletions.due_at} limit ${p.limit} for update skip locked
      ), claimed as ${builder
        .update(fileDeletions)
        .set({ due_at: postponed })
        .from(sql`due`)
        .where(sql`${fileDeletions.storage_key} = due.storage_key`)
        .returning({ storage_key: fileDeletions.storage_key, is_unfinished: fileDeletions.is_unfinished })}
      select storage_key, is_unfinished from claimed`
  },
)

/** A file to remove. */
export interface DeletedFile {
  readonly key: string
  /** Whether the file belonged to an upload and may be incomplete. */
  readonly isUnfinished: boolean
}

/**
 * Claims files from the queue, by due time. Claimed files become due again after `retryAfter` milliseconds, so that neither a
 * failing file nor a crash blocks the queue. A file with a later due time was claimed before the clock was set back. None is claimed
 * while a backup keeps all files; whatever was claimed before has no row in the backup, which begins later.
 */
export const claimFileDeletions = async (
  db: Database,
  { limit, retryAfter }: { readonly limit: number; readonly retryAfter: number },
): Promise<DeletedFile[]> => {
  const rows = await claim(db, { limit, retry_after: retryAfter })
  return rows.map(({ storage_key, is_unfinished }) => ({ key: storage_key, isUnfinished: is_unfinished }))
}

const removeDeletions = builtStatement('file_deletions.delete', { keys: 'text[]' }, (db, p) =>
  db.delete(fileDeletions).where(sql`${fileDeletions.storage_key} = any(${p.keys})`),
)

/** Removes entries from the queue once their files are gone. */
export const deleteFileDeletions = async (db: Database, keys: readonly string[]): Promise<void> => {
  await removeDeletions(db, { keys })
}

const countDeletions = statement(
  'file_deletions.count',
  {},
  { count: 'int8', seconds: 'int8' },
  () => sql`
    select count(*) as count,
      coalesce(extract(epoch from now() - min(${fileDeletions.created_at})), 0)::bigint as seconds
    from file_deletions`,
)

/** The length of the queue, and the age of its oldest entry in seconds. */
export const countFileDeletions = async (
  db: Database,
): Promise<{ readonly count: number; readonly seconds: number }> => {
  const [row] = await countDeletions(db, {})
  return row ?? { count: 0, seconds: 0 }
}

const unreferenced = statement(
  'files.select_unreferenced',
  { keys: 'text[]' },
  { storage_key: 'text' },
  (p) => sql`
    select key as storage_key from unnest(${p.keys}) key
    where not exists (select from attachments where ${attachments.storage_key} = key)
      and not exists (select from uploads where ${uploads.storage_key} = key)
      and not exists (select from thumbnails where ${thumbnails.storage_key} = key)
      and not exists (select from exports where ${exports.storage_key} = key)
      and not exists (select from imports where ${imports.storage_key} = key)
      and not exists (select from exports where ${exports.status} = 'running' and ${exports.writing_key} = key)
      and not exists (select from file_deletions where ${fileDeletions.storage_key} = key)`,
)

/** The keys that nothing references and that are not queued for removal. */
export const selectUnreferenced = async (db: Database, keys: readonly string[]): Promise<string[]> =>
  (await unreferenced(db, { keys })).map(({ storage_key }) => storage_key)

const kept = query(
  'files.is_kept',
  { key: 'text' },
  { is_kept: 'bool' },
  (p) => sql`
    select exists (select from attachments where ${attachments.storage_key} = ${p.key})
      or exists (select from imports where ${imports.storage_key} = ${p.key})
      or exists (select from uploads where ${uploads.storage_key} = ${p.key})
      or ${areFilesHeld} as is_kept`,
)

/** Whether an attachment, an import or an upload references the key, or one may do so in a backup that is being written. */
export const isKept = async (ctx: StatementContext, key: string): Promise<boolean> => {
  const [row] = await kept(ctx, { key })
  return row?.is_kept === true
}

const attachmentKeys = statement(
  'attachments.select_storage_keys',
  { after: 'text', limit: 'int' },
  { storage_key: 'text' },
  (p) => sql`
    select ${attachments.storage_key} from attachments where ${attachments.storage_key} > ${p.after}
    order by ${attachments.storage_key} limit ${p.limit}`,
)

/** Storage keys of attachments after the key `after`, in ascending order. */
export const selectAttachmentKeys = async (
  db: Database,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<string[]> => (await attachmentKeys(db, { after, limit })).map(({ storage_key }) => storage_key)

const attachmentIds = builtStatement('attachments.select_by_storage_key', { keys: 'text[]' }, (db, p) =>
  db
    .select({ id: attachments.id })
    .from(attachments)
    .where(sql`${attachments.storage_key} = any(${p.keys})`)
    .orderBy(attachments.storage_key),
)

/** Ids of the attachments with these storage keys. */
export const selectAttachmentIds = async (db: Database, keys: readonly string[]): Promise<string[]> =>
  (await attachmentIds(db, { keys })).map(({ id }) => id)
