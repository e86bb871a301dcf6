import { hash } from 'node:crypto'
import type { components } from '../../generated/openapi.ts'
import { auditReadByAdmin } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { defaultLimit } from '../db/lists/list.ts'
import { selectTaskChanges } from '../db/task-changes.ts'
import { selectTasks } from '../db/task-list.ts'
import { QuotaExceeded } from '../db/quotas.ts'
import { deleteTask, insertTask, selectTask, type TaskRow, updateTask } from '../db/tasks.ts'
import { decodeChangeCursor, encodeChangeCursor } from '../domain/change-cursors.ts'
import { isDueBeforeStart } from '../domain/dates.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import { jsonText } from '../contract/json-text.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { tagPointer } from '../domain/tag-pointer.ts'
import type { Principal } from '../domain/permissions.ts'
import { taskList } from '../domain/task-filter.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import type { TaskQuota } from '../services/task-quota.ts'
import { expectDone, expectMayListAll, expectScopes, problems } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly cursorKeys: KeyRing
  readonly taskQuota: TaskQuota
}

type Task = components['schemas']['Task']

/** The operations of the contract's tag `tasks`. */
export const taskHandlers = ({ db, paging, cursorKeys, taskQuota }: Deps) => {
  /** A request that keeps the owner adds nothing to what they have. */
  const expectRoomForOwner = async (
    principal: Principal,
    taskId: string,
    { owner_id }: { readonly owner_id?: string },
  ): Promise<void> => {
    if (owner_id === undefined || owner_id === principal.userId) return
    try {
      await taskQuota.expectRoomForTransfer(owner_id, 1)
    } catch (error) {
      const task = await selectTask(db, principal, taskId, [])
      const isTransfer =
        task.outcome === 'done' && (JSON.parse(task.value.json) as Task).owner_id !== owner_id
      if (isTransfer || !(error instanceof QuotaExceeded)) throw error
    }
  }

  return {
    async listTasks({ path, principal, query }) {
      expectMayListAll(principal, query)
      const { filter, asOf, request, answer } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, userId: principal.userId })
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      return answer(await selectTasks(db, principal, list, request))
    },

    async listTaskChanges({ principal, query }) {
      expectMayListAll(principal, query)
      const { limit = defaultLimit, since, all = false } = query
      const feed = { principal, all }
      const position = since === undefined ? null : decodeChangeCursor(cursorKeys, feed, since)
      if (since !== undefined && position === null) throw problems.invalidSince()
      const changes = await selectTaskChanges(db, feed, position, limit)
      if (changes === null) throw problems.changesForgotten()
      const { changed, deleted, next, hasMore } = changes
      const cursor = JSON.stringify(encodeChangeCursor(cursorKeys, feed, next))
      return {
        status: 200,
        body: jsonText(
          `{"changed":${changed},"deleted":${deleted},"next_cursor":${cursor},"has_more":${JSON.stringify(hasMore)}}`,
        ),
      }
    },

    async createTask({ body, principal, idempotency }) {
      if (isDueBeforeStart(body)) throw problems.dueBeforeStart()
      const { owner_id: ownerId = principal.userId } = body
      // Only administrators create tasks for others.
      const expectRoom = () => (ownerId === principal.userId ? taskQuota.expectRoom(ownerId, 1) : null)
      const result = await insertTask(db, principal, body, idempotency, expectRoom)
      if (result.outcome === 'unknown_tag')
        throw problems.unknownReference(tagPointer(body, result.tagId), 'tag')
      const task = expectDone(result)
      if (!task.replayed) taskQuota.added(ownerId, 1)
      return created<Task>(`/tasks/${task.id}`, quoteETag(1), task)
    },

    async getTask({ params, principal, client, query: { expand = [] } }) {
      expectScopes(scopesOfExpansions(expand), principal)
      const task = expectDone(await selectTask(db, principal, params.task_id, expand))
      const ownerId = task.owner_read_by_admin
      await auditReadByAdmin(db, 'task.read_by_admin', { client, principal, ownerId })
      return expand.length === 0 ? taskAnswer(task) : expandedTaskAnswer(task)
    },

    async replaceTask({ params, body, principal, ifMatch }) {
      if (isDueBeforeStart(body)) throw problems.dueBeforeStart()
      await expectRoomForOwner(principal, params.task_id, body)
      const replacement = { start_at: null, due_at: null, assignee_id: null, ...body }
      const task = expectDone(await updateTask(db, principal, params.task_id, replacement, ifMatch))
      if (body.owner_id !== undefined) taskQuota.added(body.owner_id, 1)
      return taskAnswer(task)
    },

    async updateTask({ params, body, principal, ifMatch }) {
      if (isDueBeforeStart(body)) throw problems.dueBeforeStart()
      await expectRoomForOwner(principal, params.task_id, body)
      const task = expectDone(await updateTask(db, principal, params.task_id, body, ifMatch))
      if (body.owner_id !== undefined) taskQuota.added(body.owner_id, 1)
      return taskAnswer(task)
    },

    async deleteTask({ params, principal, ifMatch }) {
      expectDone(await deleteTask(db, principal, params.task_id, ifMatch))
      return { status: 204 }
    },
  } satisfies Partial<Handlers>
}

const taskAnswer = ({ json, version }: TaskRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(version) },
  body: jsonText<Task>(json),
})

/** Its bytes change with more than the task, so its entity tag has a hash of them. */
const expandedTaskAnswer = ({ json, version }: TaskRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(`${version}-${hash('sha256', json, 'base64url')}`) },
  body: jsonText<Task>(json),
})
