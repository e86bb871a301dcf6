import type { Database } from '../db/engine/client.ts'
import { deleteTag, insertTag, selectTag, selectTags } from '../db/tags.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll } from '../problems/problems.ts'
import type { Sweeper } from '../jobs/sweeper.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly sweeper: Sweeper
}

/** The operations of the contract's tag `tags`. A tag never changes, so its ETag is its id. */
export const tagHandlers = ({ db, paging, sweeper }: Deps) =>
  ({
    async listTags({ path, principal, query }) {
      expectMayListAll(principal, query)
      const { filter, request, answer } = paging(path, principal, query)
      return answer(await selectTags(db, principal, filter, request))
    },

    async createTag({ body, principal, idempotency }) {
      const tag = await insertTag(db, principal, body, idempotency)
      return created(`/tags/${tag.id}`, quoteETag(tag.id), tag)
    },

    async getTag({ params, principal }) {
      const { json } = expectDone(await selectTag(db, principal, params.tag_id))
      return { status: 200, headers: { etag: quoteETag(params.tag_id) }, body: jsonText(json) }
    },

    async deleteTag({ params, principal, ifMatch }) {
      expectDone(await deleteTag(db, principal, params.tag_id, ifMatch))
      sweeper.wake()
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
