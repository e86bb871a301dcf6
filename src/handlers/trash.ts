import type { components } from '../../generated/openapi.ts'
import { auditReadByAdmin } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { deleteTrashedTask, restoreTask, selectTrash, selectTrashedTask } from '../db/trash.ts'
import { jsonText } from '../contract/json-text.ts'
import { type Handlers, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll } from '../problems/problems.ts'
import type { Sweeper } from '../jobs/sweeper.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly sweeper: Sweeper
}

type Schemas = components['schemas']

/** The operations of the contract's tag `trash`. */
export const trashHandlers = ({ db, paging, sweeper }: Deps) =>
  ({
    async listTrash({ path, principal, query }) {
      expectMayListAll(principal, query)
      const { filter, request, answer } = paging(path, principal, query)
      return answer(await selectTrash(db, principal, filter, request))
    },

    async getTrashedTask({ params, principal, client }) {
      const task = expectDone(await selectTrashedTask(db, principal, params.task_id))
      const { json, version, owner_read_by_admin: ownerId } = task
      await auditReadByAdmin(db, 'task.read_by_admin', { client, principal, ownerId })
      return {
        status: 200,
        headers: { etag: quoteETag(version) },
        body: jsonText<Schemas['TrashedTask']>(json),
      }
    },

    async restoreTask({ params, principal, ifMatch }) {
      const { json, version } = expectDone(await restoreTask(db, principal, params.task_id, ifMatch))
      return { status: 200, headers: { etag: quoteETag(version) }, body: jsonText<Schemas['Task']>(json) }
    },

    async deleteTrashedTask({ params, principal, ifMatch }) {
      expectDone(await deleteTrashedTask(db, principal, params.task_id, ifMatch))
      sweeper.wake()
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
