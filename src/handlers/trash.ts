import type { components } from '../../generated/openapi.ts'
import { ok, shown } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { restoreTask } from '../services/tasks/single.ts'
import {
  getTrashedProject,
  getTrashedTask,
  listTrashedTasks,
  listTrashedProjects,
  type Trash,
} from '../services/tasks/trash.ts'
import type { Handlers } from './handlers.ts'
import { projectResponse, projectETag } from './projects.ts'
import { taskResponse, taskETag } from './task-responses.ts'

interface Deps {
  readonly paging: Paging
  readonly trash: Trash
}

type Schemas = components['schemas']

/** The operations of the contract's tag `trash`. */
export const trashHandlers = ({ paging, trash }: Deps) =>
  ({
    async listTrashedTasks(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTrashedTasks(ctx, filter, request))
    },

    async getTrashedTask(ctx, { params }) {
      const task = await getTrashedTask(ctx, params.task_id)
      return ok<Schemas['TrashedTask']>(task, taskETag(task))
    },

    async restoreTask(ctx, { params }) {
      return taskResponse(await restoreTask(ctx, params.task_id))
    },

    async deleteTrashedTask(ctx, { params }) {
      await trash.deleteTrashedTask(ctx, params.task_id)
      return { status: 204 }
    },

    async listTrashedProjects(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTrashedProjects(ctx, filter, request))
    },

    async getTrashedProject(ctx, { params }) {
      const project = await getTrashedProject(ctx, params.project_id)
      return shown<Schemas['TrashedProject']>(project.json, projectETag)
    },

    async restoreProject(ctx, { params }) {
      return projectResponse(await trash.restoreProject(ctx, params.project_id))
    },

    async deleteTrashedProject(ctx, { params }) {
      await trash.deleteTrashedProject(ctx, params.project_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
