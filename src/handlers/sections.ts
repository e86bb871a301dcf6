import type { components } from '../../generated/openapi.ts'
import { created, ok, versionETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import {
  createSection,
  deleteSection,
  getSection,
  listProjectSections,
  updateSection,
} from '../services/tasks/sections.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Section = components['schemas']['Section']

/** The operations of the contract's tag `sections`. */
export const sectionHandlers = ({ paging }: Deps) =>
  ({
    async listProjectSections(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listProjectSections(ctx, params.project_id, request))
    },

    async createSection(ctx, { params, body }) {
      const section = await createSection(ctx, params.project_id, body)
      return created<Section>(`/projects/${params.project_id}/sections/${section.id}`, section, versionETag)
    },

    async getSection(ctx, { params }) {
      return ok<Section>(await getSection(ctx, pathOf(params)))
    },

    async updateSection(ctx, { params, body }) {
      return ok<Section>(await updateSection(ctx, pathOf(params), body))
    },

    async deleteSection(ctx, { params }) {
      await deleteSection(ctx, pathOf(params))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const pathOf = (params: { readonly project_id: string; readonly section_id: string }) => ({
  projectId: params.project_id,
  sectionId: params.section_id,
})
