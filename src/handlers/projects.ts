import type { components } from '../../generated/openapi.ts'
import { created, quoteETag, shown } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import { noIntegrationFields } from '../domain/shared/integration-fields.ts'
import type { Paging } from '../http/paging.ts'
import {
  createProject,
  getProject,
  listProjects,
  type Projects,
  setProjectArchived,
  updateProject,
} from '../services/projects/lifecycle.ts'
import { listProjectTasks } from '../services/tasks/lists.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly projects: Projects
}

type Project = components['schemas']['Project']

/** The operations of the contract's tag `projects`. */
export const projectHandlers = ({ paging, projects }: Deps) =>
  ({
    async listProjects(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listProjects(ctx, filter, request))
    },

    async createProject(ctx, { body }) {
      const project = await createProject(ctx, body)
      return created<Project>(`/projects/${project.id}`, project, projectETag)
    },

    async getProject(ctx, { params }) {
      return projectResponse(await getProject(ctx, params.project_id))
    },

    async replaceProject(ctx, { params, body }) {
      const replacement = { color: null, ...noIntegrationFields, ...body }
      return projectResponse(
        await updateProject(ctx, params.project_id, replacement, { replacesMetadata: true }),
      )
    },

    async updateProject(ctx, { params, body }) {
      return projectResponse(await updateProject(ctx, params.project_id, body))
    },

    async deleteProject(ctx, { params }) {
      await projects.delete(ctx, params.project_id)
      return { status: 204 }
    },

    async archiveProject(ctx, { params }) {
      return projectResponse(await setProjectArchived(ctx, params.project_id, true))
    },

    async unarchiveProject(ctx, { params }) {
      return projectResponse(await setProjectArchived(ctx, params.project_id, false))
    },

    async listProjectTasks(ctx, { path, params, query }) {
      const list = paging(path, ctx.principal, query)
      return list.respond(await listProjectTasks(ctx, params.project_id, list))
    },
  }) satisfies Partial<Handlers>

type ProjectState = Pick<Project, 'version' | 'role' | 'member_count' | 'open_task_count'>

/** The entity tag includes the caller's role and the counts, which the version does not cover. */
export const projectETag = ({ version, role, member_count, open_task_count }: ProjectState): string =>
  quoteETag(variantTag(version, `${role ?? 'none'}-${member_count}-${open_task_count}`))

export const projectResponse = ({ json }: { readonly json: string }) => shown<Project>(json, projectETag)
