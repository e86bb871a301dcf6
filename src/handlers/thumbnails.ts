import { Readable } from 'node:stream'
import { auditReadByAdmin } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import {
  deleteThumbnail,
  insertThumbnail,
  selectThumbnail,
  type Thumbnail,
  type ThumbnailSource,
} from '../db/thumbnails.ts'
import type { Outcome } from '../domain/outcome.ts'
import { createSingleFlight } from '../images/single-flight.ts'
import { type Thumbnailer, type ThumbnailRequest, thumbnailWidth } from '../images/thumbnailer.ts'
import { type Handlers, quoteETag } from '../contract/operation.ts'
import { expectDone, problems } from '../problems/problems.ts'
import { openUnlessDeleted } from '../services/open-file.ts'
import { type ByteRange, FileMissing, type Storage } from '../storage/storage.ts'

interface Deps {
  readonly db: Database
  readonly storage: Storage
  readonly thumbnailer: Thumbnailer
}

const defaultWidth = 256

/** The thumbnails of the contract's tag `attachments`. They are made when they are first requested, and kept. */
export const thumbnailHandlers = ({ db, storage, thumbnailer }: Deps) => {
  const flights = createSingleFlight<Thumbnail>()

  return {
    async getThumbnail({ params, query, principal, client, signal }) {
      const { attach_id } = params
      const width = thumbnailWidth(query.width ?? defaultWidth)
      const find = () => selectThumbnail(db, principal, attach_id, width)
      const { file, thumbnail, ownerReadByAdmin: ownerId } = expectDone(await find())
      await auditReadByAdmin(db, 'attachment.read_by_admin', { client, principal, ownerId })
      const make = () =>
        flights.run(
          `${attach_id} ${width}`,
          (signal) => {
            const request = { width, principalId: principal.userId, signal }
            return makeThumbnail({ db, storage, thumbnailer }, attach_id, file, request)
          },
          signal,
        )
      const { storage_key, size, sha256 } = thumbnail ?? (await openUnlessDeleted(make, find))
      return {
        status: 200,
        headers: { etag: quoteETag(sha256), 'content-length': size },
        contentType: 'image/webp',
        body: { open: () => openThumbnail({ db, storage }, storage_key, find) },
      }
    },
  } satisfies Partial<Handlers>
}

/**
 * Makes a thumbnail and keeps it. When another process has made the same one meanwhile, the first row stays. If the
 * attachment was deleted meanwhile, the insertion fails and the sweeper removes the file.
 */
const makeThumbnail = async (
  { db, storage, thumbnailer }: Deps,
  attachmentId: string,
  { storage_key, size }: ThumbnailSource['file'],
  request: Omit<ThumbnailRequest, 'file'>,
): Promise<Thumbnail> => {
  const open = (range?: ByteRange) => storage.open(storage_key, range)
  const image = await thumbnailer.render({ file: { key: storage_key, size, open }, ...request })
  const stored = await storage.put(Readable.from([image]), { maxBytes: image.length })
  const { width } = request
  const kept = await insertThumbnail(db, {
    attachmentId,
    width,
    storageKey: stored.key,
    size: stored.size,
    sha256: stored.sha256,
  })
  if (kept.storage_key !== stored.key) await storage.remove(stored.key)
  return kept
}

/** Opens a thumbnail. One whose file is lost is forgotten, so that the next request makes it again. */
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
