import { quoteETag } from '../contract/operation.ts'
import type { Thumbnails } from '../services/files/thumbnails.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly thumbnails: Thumbnails
}

const defaultWidth = 256

/** The thumbnails of the contract's tag `attachments`. */
export const thumbnailHandlers = ({ thumbnails }: Deps) =>
  ({
    async getThumbnail(ctx, { params, query }) {
      const { size, sha256, open } = await thumbnails.getThumbnail(ctx, {
        attachmentId: params.attach_id,
        width: query.width ?? defaultWidth,
      })
      return {
        status: 200,
        headers: { etag: quoteETag(sha256), 'content-length': size },
        contentType: 'image/webp',
        body: { open },
      }
    },
  }) satisfies Partial<Handlers>
