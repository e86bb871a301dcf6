import type { components } from '../../generated/openapi.ts'
import { selectTrash, selectTrashedTask } from '../db/trash.ts'
import { selectTrashedProject, selectTrashedProjects } from '../db/project-trash.ts'
import { jsonText } from '../contract/json-text.ts'
import type { Handlers } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll } from '../problems/problems.ts'
import { projectResponse, projectETag } from './projects.ts'
import { deleteTrashedProject, restoreProject } from '../services/projects.ts'
import { deleteTrashedTask, restoreTask } from '../services/tasks.ts'
import type { Jobs } from '../jobs/registry.ts'
import { taskResponse, taskETag } from './task-responses.ts'

interface Deps {
  readonly paging: Paging
  readonly jobs: Jobs
}

type Schemas = components['schemas']

/** The operations of the contract's tag `trash`. */
export const trashHandlers = ({ paging, jobs }: Deps) =>
  ({
    async listTrash(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectTrash(ctx, filter, request))
    },

    async getTrashedTask(ctx, { params }) {
      const task = expectDone(await selectTrashedTask(ctx, params.task_id))
      return {
        status: 200,
        headers: { etag: taskETag(task) },
        body: jsonText<Schemas['TrashedTask']>(task.json),
      }
    },

    async restoreTask(ctx, { params }) {
      return taskResponse(await restoreTask(ctx, params.task_id))
    },

    async deleteTrashedTask(ctx, { params }) {
      await deleteTrashedTask(ctx, params.task_id)
      jobs.wake('remove_deleted_files')
      return { status: 204 }
    },

    async listTrashedProjects(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectTrashedProjects(ctx, filter, request))
    },

    async getTrashedProject(ctx, { params }) {
      const project = expectDone(await selectTrashedProject(ctx, params.project_id))
      return {
        status: 200,
        headers: { etag: projectETag(project) },
        body: jsonText<Schemas['TrashedProject']>(project.json),
      }
    },

    async restoreProject(ctx, { params }) {
      const project = await restoreProject(ctx, params.project_id)
      jobs.wake('redeliver_tasks')
      return projectResponse(project)
    },

    async deleteTrashedProject(ctx, { params }) {
      await deleteTrashedProject(ctx, params.project_id)
      jobs.wake('purge_deleted_rows')
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
