import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import { withVersion } from '../db/engine/context.ts'
import { newProjectVariant, type ProjectRow, selectProject, selectProjects } from '../db/projects.ts'
import { selectTasks } from '../db/task-list.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import { taskList } from '../domain/task-filter.ts'
import type { Paging } from '../http/paging.ts'
import type { Jobs } from '../jobs/registry.ts'
import { expectDone, expectMayListAll, expectScopes, problems } from '../problems/problems.ts'
import { createProject, deleteProject, setProjectArchived, updateProject } from '../services/projects.ts'

interface Deps {
  readonly paging: Paging
  readonly jobs: Jobs
}

type Project = components['schemas']['Project']

/** The operations of the contract's tag `projects`. */
export const projectHandlers = ({ paging, jobs }: Deps) =>
  ({
    async listProjects(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectProjects(ctx, filter, request))
    },

    async createProject(ctx, { body }) {
      const project = await createProject(ctx, body)
      const etag = projectETag({ version: 1, variant: newProjectVariant })
      return created<Project>(`/projects/${project.id}`, etag, project)
    },

    async getProject(ctx, { params }) {
      return projectResponse(expectDone(await selectProject(ctx, params.project_id)))
    },

    async replaceProject(ctx, { params, body: { version, ...fields } }) {
      const replacement = { color: null, ...fields }
      return projectResponse(await updateProject(withVersion(ctx, version), params.project_id, replacement))
    },

    async updateProject(ctx, { params, body }) {
      return projectResponse(await updateProject(ctx, params.project_id, body))
    },

    async deleteProject(ctx, { params }) {
      await deleteProject(ctx, params.project_id)
      jobs.wake('redeliver_tasks')
      return { status: 204 }
    },

    async archiveProject(ctx, { params }) {
      return projectResponse(await setProjectArchived(ctx, params.project_id, true))
    },

    async unarchiveProject(ctx, { params }) {
      return projectResponse(await setProjectArchived(ctx, params.project_id, false))
    },

    async listProjectTasks(ctx, { path, params, query }) {
      const { principal } = ctx
      const { filter, asOf, request, respond } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, ...principal }, { projectId: params.project_id })
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      expectDone(await selectProject(ctx, params.project_id))
      return respond(await selectTasks(ctx.db, principal, list, request))
    },
  }) satisfies Partial<Handlers>

/** The entity tag includes the variant, since the representation also depends on the caller's role and on counts. */
export const projectETag = ({ version, variant }: Pick<ProjectRow, 'version' | 'variant'>): string =>
  quoteETag(variantTag(version, variant))

export const projectResponse = (project: ProjectRow) => ({
  status: 200 as const,
  headers: { etag: projectETag(project) },
  body: jsonText<Project>(project.json),
})
