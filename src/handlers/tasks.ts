import { hash } from 'node:crypto'
import type { components } from '../../generated/openapi.ts'
import { jsonObject, jsonText, stringify } from '../contract/json-text.ts'
import { created, ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import { noIntegrationFields } from '../domain/shared/integration-fields.ts'
import { defaultLimit } from '../domain/shared/pages.ts'
import type { Paging } from '../http/paging.ts'
import type { ListTaskChanges } from '../services/activity/task-changes.ts'
import { listTasks } from '../services/tasks/lists.ts'
import { createTask, deleteTask, getTask, moveTask, updateTask } from '../services/tasks/single.ts'
import type { Handlers } from './handlers.ts'
import { taskETag, taskResponse } from './task-responses.ts'

interface Deps {
  readonly paging: Paging
  readonly listTaskChanges: ListTaskChanges
  /** The quota of the installation; null is unlimited. */
  readonly taskQuota: number | null
}

type Task = components['schemas']['Task']
type TaskChanges = components['schemas']['TaskChanges']

const noDates = { start_at: null, start_on: null, due_at: null, due_on: null }

/** The operations of the contract's tag `tasks`. */
export const taskHandlers = ({ paging, listTaskChanges, taskQuota }: Deps) =>
  ({
    async listTasks(ctx, { path, query }) {
      const list = paging(path, ctx.principal, query)
      return list.respond(await listTasks(ctx, list))
    },

    async listTaskChanges(ctx, { query }) {
      const { limit = defaultLimit, since = null, all = false } = query
      const { project_id: projects = null, assignee_id: assignees = null } = query
      const page = await listTaskChanges(ctx, { since, limit, all, projects, assignees })
      return {
        status: 200,
        body: jsonObject<TaskChanges>({
          changed: jsonText<TaskChanges['changed']>(page.changed),
          deleted: jsonText<TaskChanges['deleted']>(page.deleted),
          next_cursor: stringify(page.nextCursor),
          has_more: stringify(page.hasMore),
        }),
      }
    },

    async createTask(ctx, { body }) {
      const task = await createTask(ctx, body, taskQuota)
      return created<Task>(`/tasks/${task.id}`, task, taskETag)
    },

    async getTask(ctx, { params, query: { expand = [] } }) {
      const task = await getTask(ctx, params.task_id, expand)
      return expand.length === 0 ? taskResponse(task) : expandedTaskResponse(task)
    },

    async replaceTask(ctx, { params, body }) {
      const { recurrence } = body
      const replacement = {
        ...noDates,
        ...noIntegrationFields,
        assignee_id: null,
        ...body,
        isPut: true,
        ...(recurrence != null && { recurrence: { time_zone: ctx.principal.timeZone, ...recurrence } }),
      }
      return taskResponse(await updateTask(ctx, params.task_id, replacement, taskQuota))
    },

    async updateTask(ctx, { params, body }) {
      return taskResponse(await updateTask(ctx, params.task_id, body, taskQuota))
    },

    async moveTask(ctx, { params, body }) {
      return taskResponse(await moveTask(ctx, params.task_id, body, taskQuota))
    },

    async deleteTask(ctx, { params }) {
      await deleteTask(ctx, params.task_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

/** The entity tag includes a hash, since the representation also depends on the expanded resources. */
const expandedTaskResponse = (task: Versioned) =>
  ok<Task>(task, quoteETag(variantTag(task.version, hash('sha256', task.json, 'base64url'))))
