import { done, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { allowsAttachment, callerOf, callerParameters, ownerReadByAdmin } from './access/permissions.ts'
import { onlyRow, statement } from './engine/statement.ts'

/** A thumbnail that the storage holds. */
export interface Thumbnail {
  readonly storage_key: string
  readonly size: number
  readonly sha256: string
}

/** What a thumbnail is made of, and the thumbnail if it was made before. */
export interface ThumbnailSource {
  readonly file: { readonly storage_key: string; readonly size: number }
  readonly thumbnail: Thumbnail | null
  /** The owner of the task, if the caller sees that only as an administrator. */
  readonly ownerReadByAdmin: string | null
}

/** A stored file that is about to be an attachment's thumbnail. */
export interface NewThumbnail {
  readonly attachmentId: string
  readonly width: number
  readonly storageKey: string
  readonly size: number
  readonly sha256: string
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')

const selectVisible = statement(
  { attachment_id: 'uuid', width: 'int', ...callerParameters },
  {
    file_key: 'text',
    file_size: 'int8',
    storage_key: 'text?',
    size: 'int?',
    sha256: 'text?',
    owner: 'text?',
  },
  (p) => sql`
    select attachment.storage_key as file_key, attachment.size as file_size,
      thumbnail.storage_key, thumbnail.size, thumbnail.sha256, ${ownerReadByAdmin('task.see', p, task)} as owner
    from attachments attachment join tasks task on task.id = attachment.task_id
      left join thumbnails thumbnail on thumbnail.attachment_id = attachment.id and thumbnail.width = ${p.width}
    where attachment.id = ${p.attachment_id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** An attachment's file and its thumbnail of that width, if the principal sees its task. */
export const selectThumbnail = async (
  db: Database,
  principal: Principal,
  attachmentId: string,
  width: number,
): Promise<Outcome<ThumbnailSource>> => {
  const values = { attachment_id: attachmentId, width, ...callerOf(principal) }
  const row = onlyRow(await selectVisible(db, values))
  if (row === null) return missing
  const { file_key, file_size, storage_key, size, sha256, owner } = row
  const isMade = storage_key !== null && size !== null && sha256 !== null
  return done({
    file: { storage_key: file_key, size: file_size },
    thumbnail: isMade ? { storage_key, size, sha256 } : null,
    ownerReadByAdmin: owner,
  })
}

const insert = statement(
  { attachment_id: 'uuid', width: 'int', storage_key: 'text', size: 'int', sha256: 'text' },
  { storage_key: 'text', size: 'int', sha256: 'text' },
  // The update changes nothing: it makes the statement answer with the row that was there first.
  (p) => sql`
    insert into thumbnails (attachment_id, width, storage_key, size, sha256)
    values (${p.attachment_id}, ${p.width}, ${p.storage_key}, ${p.size}, ${p.sha256})
    on conflict (attachment_id, width) do update set width = excluded.width
    returning storage_key, size, sha256`,
)

/** Makes a stored file the thumbnail of that width, unless there is one already; answers with the one that there is then. */
export const insertThumbnail = async (
  db: Database,
  { attachmentId, width, storageKey, size, sha256 }: NewThumbnail,
): Promise<Thumbnail> => {
  const values = { attachment_id: attachmentId, width, storage_key: storageKey, size, sha256 }
  const row = onlyRow(await insert(db, values))
  if (row === null) throw new Error('An insertion that resolves its conflict answers with one row')
  return row
}

const remove = statement(
  { storage_key: 'text' },
  {},
  (p) => sql`delete from thumbnails where storage_key = ${p.storage_key}`,
)

/** Forgets a thumbnail, so that it is made again when it is asked for. */
export const deleteThumbnail = async (db: Database, storageKey: string): Promise<void> => {
  await remove(db, { storage_key: storageKey })
}
