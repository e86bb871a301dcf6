import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { type SectionRow, selectSection, selectSections } from '../db/sections.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectOnePlace } from '../problems/problems.ts'
import { createSection, deleteSection, updateSection } from '../services/sections.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Section = components['schemas']['Section']

/** The operations of the contract's tag `sections`. */
export const sectionHandlers = ({ paging }: Deps) =>
  ({
    async listSections(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectSections(ctx, params.project_id, request)))
    },

    async createSection(ctx, { params, body }) {
      expectOnePlace(body)
      const section = await createSection(ctx, params.project_id, body)
      return created<Section>(`/projects/${params.project_id}/sections/${section.id}`, quoteETag(1), section)
    },

    async getSection(ctx, { params }) {
      return sectionResponse(expectDone(await selectSection(ctx, pathOf(params))))
    },

    async updateSection(ctx, { params, body }) {
      expectOnePlace(body)
      return sectionResponse(await updateSection(ctx, pathOf(params), body))
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

const sectionResponse = ({ json, version }: SectionRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(version) },
  body: jsonText<Section>(json),
})
