import { hash } from 'node:crypto'
import type { components } from '../../generated/openapi.ts'
import { jsonObject, jsonText, stringify } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { defaultLimit } from '../db/lists/list.ts'
import { selectTaskChanges } from '../db/task-changes.ts'
import { selectTasks } from '../db/task-list.ts'
import { selectTask, type TaskRow } from '../db/tasks.ts'
import { decodeChangeCursor, encodeChangeCursor } from '../domain/change-cursors.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { scopesOfNewTask } from '../domain/scopes.ts'
import { taskList } from '../domain/task-filter.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll, expectOnePlace, expectScopes, problems } from '../problems/problems.ts'
import { withVersion } from '../services/context.ts'
import { createTask, deleteTask, moveTask, updateTask } from '../services/tasks.ts'
import type { Handlers } from './handlers.ts'
import { taskResponse } from './task-responses.ts'

interface Deps {
  readonly paging: Paging
  readonly cursorKeys: KeyRing
  /** The quota of the installation; null is unlimited. */
  readonly taskQuota: number | null
}

type Task = components['schemas']['Task']
type TaskChanges = components['schemas']['TaskChanges']

const noDates = { start_at: null, start_on: null, due_at: null, due_on: null }

/** The operations of the contract's tag `tasks`. */
export const taskHandlers = ({ paging, cursorKeys, taskQuota }: Deps) =>
  ({
    async listTasks(ctx, { path, query }) {
      const { principal } = ctx
      expectMayListAll(principal, query)
      const { filter, asOf, request, respond } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, ...principal })
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      return respond(await selectTasks(ctx.db, principal, list, request))
    },

    async listTaskChanges(ctx, { query }) {
      const { principal } = ctx
      expectMayListAll(principal, query)
      const { limit = defaultLimit, since, all = false } = query
      const { project_id: projects = null, assignee_id: assignees = null } = query
      const feed = { principal, all, projects, assignees }
      const from = since === undefined ? { value: null } : decodeChangeCursor(cursorKeys, feed, since)
      if ('fault' in from) throw problems.invalidSince(from.fault)
      const changes = await selectTaskChanges(ctx, { ...feed, position: from.value, limit })
      if (changes === null) throw problems.changesForgotten()
      const { changed, deleted, next, hasMore } = changes
      return {
        status: 200,
        body: jsonObject<TaskChanges>({
          changed: jsonText<TaskChanges['changed']>(changed),
          deleted: jsonText<TaskChanges['deleted']>(deleted),
          next_cursor: stringify(encodeChangeCursor(cursorKeys, feed, next)),
          has_more: stringify(hasMore),
        }),
      }
    },

    async createTask(ctx, { body }) {
      expectScopes(scopesOfNewTask(body), ctx.principal)
      const task = await createTask(ctx, body, taskQuota)
      return created<Task>(`/tasks/${task.id}`, quoteETag(1), task)
    },

    async getTask(ctx, { params, query: { expand = [] } }) {
      expectScopes(scopesOfExpansions(expand), ctx.principal)
      const task = expectDone(await selectTask(ctx, params.task_id, expand))
      return expand.length === 0 ? taskResponse(task) : expandedTaskResponse(task)
    },

    async replaceTask(ctx, { params, body }) {
      const { version, ...fields } = body
      const replacement = { ...noDates, assignee_id: null, ...fields }
      return taskResponse(await updateTask(withVersion(ctx, version), params.task_id, replacement, taskQuota))
    },

    async updateTask(ctx, { params, body }) {
      return taskResponse(await updateTask(ctx, params.task_id, body, taskQuota))
    },

    async moveTask(ctx, { params, body }) {
      expectOnePlace(body)
      return taskResponse(await moveTask(ctx, params.task_id, body, taskQuota))
    },

    async deleteTask(ctx, { params }) {
      await deleteTask(ctx, params.task_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

/** The entity tag includes a hash, since the representation also depends on the expanded resources. */
const expandedTaskResponse = ({ json, version }: TaskRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(variantTag(version, hash('sha256', json, 'base64url'))) },
  body: jsonText<Task>(json),
})
