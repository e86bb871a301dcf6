import { Readable } from 'node:stream'
import { auditReadByAdmin } from '../db/audit.ts'
import type { Database } from '../db/client.ts'
import { deleteThumbnail, insertThumbnail, selectThumbnail, type Thumbnail } from '../db/thumbnails.ts'
import type { Outcome } from '../domain/outcome.ts'
import { type Handlers, quoteETag } from '../operation.ts'
import { expectDone, problems } from '../problems.ts'
import { openUnlessDeleted } from '../storage/deleted-files.ts'
import { type ByteRange, FileMissing, type Storage } from '../storage/storage.ts'
import { type Thumbnailer, thumbnailWidth } from '../thumbnailer.ts'

interface Deps {
  readonly db: Database
  readonly storage: Storage
  readonly thumbnailer: Thumbnailer
}

const defaultWidth = 256

/** What the contract's tag `attachments` has of thumbnails. They are made when they are asked for, and kept. */
export const thumbnailHandlers = ({ db, storage, thumbnailer }: Deps) =>
  ({
    async getThumbnail({ params, query, principal, client }) {
      const { attach_id } = params
      const width = thumbnailWidth(query.width ?? defaultWidth)
      const find = () => selectThumbnail(db, principal, attach_id, width)
      const { file, thumbnail, ownerReadByAdmin: ownerId } = expectDone(await find())
      await auditReadByAdmin(db, 'attachment.read_by_admin', { client, principal, ownerId })
      const make = () => makeThumbnail({ db, storage, thumbnailer }, attach_id, file, width)
      const { storage_key, size, sha256 } = thumbnail ?? (await openUnlessDeleted(make, find))
      return {
        status: 200,
        headers: { etag: quoteETag(sha256), 'content-length': size },
        contentType: 'image/webp',
        body: { open: () => openThumbnail({ db, storage }, storage_key, find) },
      }
    },
  }) satisfies Partial<Handlers>

/**
 * Makes a thumbnail and keeps it. Of two made at the same time the one stays whose row was there first. A file whose row
 * is refused, since the attachment was deleted meanwhile, is left to the sweeper.
 */
const makeThumbnail = async (
  { db, storage, thumbnailer }: Deps,
  attachmentId: string,
  original: { readonly storage_key: string; readonly size: number },
  width: number,
): Promise<Thumbnail> => {
  const open = (range?: ByteRange) => storage.open(original.storage_key, range)
  const image = await thumbnailer.render({ size: original.size, open }, width)
  const { key, size, sha256 } = await storage.put(Readable.from([image]), { maxBytes: image.length })
  const kept = await insertThumbnail(db, { attachmentId, width, storageKey: key, size, sha256 })
  if (kept.storage_key !== key) await storage.remove(key)
  return kept
}

/** One whose file is lost is forgotten, so that the next request has it made again. */
const openThumbnail = async (
  { db, storage }: Omit<Deps, 'thumbnailer'>,
  key: string,
  find: () => Promise<Outcome<unknown>>,
): Promise<Readable> => {
  try {
    return await openUnlessDeleted(() => storage.open(key), find)
  } catch (error) {
    if (!(error instanceof FileMissing)) throw error
    await deleteThumbnail(db, key)
    throw problems.serviceUnavailable('The thumbnail was lost. It is made again when it is asked for.', error)
  }
}
