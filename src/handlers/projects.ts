import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import {
  insertProject,
  newProjectVariant,
  type ProjectRow,
  selectProject,
  selectProjects,
} from '../db/projects.ts'
import { selectTasks } from '../db/task-list.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import { taskList } from '../domain/task-filter.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll, expectScopes, problems } from '../problems/problems.ts'

interface Deps {
  readonly paging: Paging
}

type Project = components['schemas']['Project']

/** The operations of the contract's tag `projects`. */
export const projectHandlers = ({ paging }: Deps) =>
  ({
    async listProjects(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, answer } = paging(path, ctx.principal, query)
      return answer(await selectProjects(ctx, filter, request))
    },

    async createProject(ctx, { body }) {
      const project = await insertProject(ctx, body)
      const etag = quoteETag(variantTag(1, newProjectVariant))
      return created<Project>(`/projects/${project.id}`, etag, project)
    },

    async getProject(ctx, { params }) {
      return projectAnswer(expectDone(await selectProject(ctx, params.project_id)))
    },

    async listProjectTasks(ctx, { path, params, query }) {
      const { principal } = ctx
      const { filter, asOf, request, answer } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, ...principal }, { projectId: params.project_id })
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      expectDone(await selectProject(ctx, params.project_id))
      return answer(await selectTasks(ctx.db, principal, list, request))
    },
  }) satisfies Partial<Handlers>

export const projectAnswer = ({ json, version, variant }: ProjectRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(variantTag(version, variant)) },
  body: jsonText<Project>(json),
})
