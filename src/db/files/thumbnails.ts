import { allowsAttachment } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext } from '../statements/context.ts'
import type { ParametersOf } from '../statements/parameters.ts'
import { expectRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { aliasedTable, eq, sql } from '../schema/drizzle.ts'
import { attachments, tasks, thumbnails } from '../schema/tables.ts'

/** A thumbnail's file in the storage. */
export interface Thumbnail {
  readonly storage_key: string
  readonly size: number
  readonly sha256: string
}

/** The file of an attachment, and its thumbnail if one is stored. */
export interface ThumbnailSource {
  readonly file: { readonly storage_key: string; readonly size: number }
  readonly thumbnail: Thumbnail | null
}

/** Identifies a thumbnail. `width` is the requested width; the thumbnail of a smaller image has the width of the image. */
export interface ThumbnailId {
  readonly attachmentId: string
  readonly width: number
}

const attachment = aliasedTable(attachments, 'attachment')
const task = aliasedTable(tasks, 'task')

const selectSource = query(
  'thumbnails.select_source',
  { attachment_id: 'uuid', width: 'int' },
  {
    file_key: 'text',
    file_size: 'int8',
    storage_key: 'text?',
    size: 'int?',
    sha256: 'text?',
  },
  (p) => sql`
    select ${attachment.storage_key} as file_key, ${attachment.size} as file_size, ${thumbnails.storage_key},
      ${thumbnails.size}, ${thumbnails.sha256}
    from attachments attachment
      join tasks task on ${task.id} = ${attachment.task_id}
      left join thumbnails on ${thumbnails.attachment_id} = ${attachment.id} and ${thumbnails.width} = ${p.width}
    where ${attachment.id} = ${p.attachment_id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** An attachment's file and its thumbnail of this width, if the caller sees its task. */
export const selectThumbnail = async (
  ctx: StatementContext,
  { attachmentId, width }: ThumbnailId,
): Promise<ThumbnailSource | null> => {
  const [row] = await selectSource(ctx, { attachment_id: attachmentId, width })
  if (row === undefined) return null
  const { file_key, file_size, storage_key, size, sha256 } = row
  const isStored = storage_key !== null && size !== null && sha256 !== null
  return {
    file: { storage_key: file_key, size: file_size },
    thumbnail: isStored ? { storage_key, size, sha256 } : null,
  }
}

const insert = builtStatement(
  'thumbnails.insert',
  {
    attachment_id: 'uuid',
    width: 'int',
    storage_key: 'text',
    size: 'int',
    sha256: 'text',
  } satisfies ParametersOf<typeof thumbnails>,
  (db, p) =>
    db
      .insert(thumbnails)
      .values(p)
      .onConflictDoUpdate({
        target: [thumbnails.attachment_id, thumbnails.width],
        // Changes nothing, but makes RETURNING include an existing row.
        set: { width: sql`excluded.width` },
      })
      .returning({ storage_key: thumbnails.storage_key, size: thumbnails.size, sha256: thumbnails.sha256 }),
)

/** Makes a stored file the thumbnail, unless there is one already. Returns the new or the existing thumbnail. */
export const insertThumbnail = async (
  { db }: StatementContext,
  { attachmentId, width, ...file }: ThumbnailId & Thumbnail,
): Promise<Thumbnail> => expectRow(await insert(db, { attachment_id: attachmentId, width, ...file }))

const remove = builtStatement('thumbnails.delete', { storage_key: 'text' }, (db, p) =>
  db.delete(thumbnails).where(eq(thumbnails.storage_key, p.storage_key)),
)

/** Deletes a thumbnail. The next request makes it again. */
export const deleteThumbnail = async ({ db }: StatementContext, storageKey: string): Promise<void> => {
  await remove(db, { storage_key: storageKey })
}
