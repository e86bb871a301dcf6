import { Readable } from 'node:stream'
import {
  deleteThumbnail,
  insertThumbnail,
  selectThumbnail,
  type Thumbnail,
  type ThumbnailSource,
} from '../../db/files/thumbnails.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { createSingleFlight } from '../../images/single-flight.ts'
import { type Thumbnailer, thumbnailWidth } from '../../images/thumbnailer.ts'
import { problems } from '../../problems/problems.ts'
import { type ByteRange, FileMissing, type Storage } from '../../storage/storage.ts'
import type { OpContext } from '../shared/context.ts'
import { expectFound } from '../shared/expectations.ts'
import { openUnlessDeleted } from './open-file.ts'

interface Deps {
  readonly storage: Storage
  readonly thumbnailer: Thumbnailer
}

/** A thumbnail to send. */
export interface OpenableThumbnail {
  readonly size: number
  readonly sha256: string
  readonly open: () => Promise<Readable>
}

export interface Thumbnails {
  /**
   * The thumbnail of an image, at least as wide as requested. The first request makes and stores it, and concurrent ones
   * share that work.
   */
  getThumbnail(
    ctx: OpContext<Principal>,
    input: { readonly attachmentId: string; readonly width: number },
  ): Promise<OpenableThumbnail>
}

interface Rendering {
  readonly attachmentId: string
  readonly width: number
  readonly file: ThumbnailSource['file']
  readonly signal: AbortSignal
}

export const createThumbnails = ({ storage, thumbnailer }: Deps): Thumbnails => {
  const flights = createSingleFlight<Thumbnail>()

  /**
   * Makes and stores a thumbnail. If another process has stored the same one in the meantime, that one stays. If the
   * attachment was deleted in the meantime, the insertion fails and a background job removes the file.
   */
  const make = async (
    ctx: OpContext<Principal>,
    { attachmentId, width, file, signal }: Rendering,
  ): Promise<Thumbnail> => {
    const { storage_key: key, size } = file
    const open = (range?: ByteRange) => storage.open(key, range)
    const { userId: caller } = ctx.principal
    const image = await thumbnailer.render({ file: { key, size, open }, width, caller, signal })
    const stored = await storage.put(Readable.from([image]), { maxBytes: image.length })
    const made = { storage_key: stored.key, size: stored.size, sha256: stored.sha256 }
    const kept = await insertThumbnail(ctx, { attachmentId, width, ...made })
    if (kept.storage_key !== stored.key) await storage.remove(stored.key)
    return kept
  }

  /** Opens a stored thumbnail. If its file is lost, deletes the row, so that the next request makes the thumbnail again. */
  const openStored = async (
    ctx: OpContext,
    key: string,
    find: () => Promise<object | null>,
  ): Promise<Readable> => {
    try {
      return await openUnlessDeleted(() => storage.open(key), find)
    } catch (error) {
      if (!(error instanceof FileMissing)) throw error
      await deleteThumbnail(ctx, key)
      throw problems.serviceUnavailable('The thumbnail was lost. The next request makes it again.', error)
    }
  }

  return {
    async getThumbnail(ctx, { attachmentId, width: requested }) {
      const width = thumbnailWidth(requested)
      const find = () => selectThumbnail(ctx, { attachmentId, width })
      const { file, thumbnail } = expectFound(await find())
      // Looks it up again: another request may have stored the thumbnail since the first look-up, and its flight may be over.
      const findOrMake = async (signal: AbortSignal): Promise<Thumbnail> =>
        expectFound(await find()).thumbnail ?? make(ctx, { attachmentId, width, file, signal })
      const makeOnce = () => flights.run(`${attachmentId} ${width}`, findOrMake, ctx.signal())
      const { storage_key, size, sha256 } = thumbnail ?? (await openUnlessDeleted(makeOnce, find))
      return { size, sha256, open: () => openStored(ctx, storage_key, find) }
    },
  }
}
