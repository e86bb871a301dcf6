import { hash } from 'node:crypto'
import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import { withVersion } from '../db/engine/context.ts'
import {
  deleteProjectMember,
  type ProjectMemberRow,
  selectProjectMember,
  selectProjectMembers,
  setProjectMember,
} from '../db/project-members.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectScopes } from '../problems/problems.ts'

interface Deps {
  readonly paging: Paging
}

type ProjectMember = components['schemas']['ProjectMember']

/** The operations of the contract's tag `members`. */
export const memberHandlers = ({ paging }: Deps) =>
  ({
    async listProjectMembers(ctx, { path, params, query }) {
      expectScopes(scopesOfExpansions(query.expand ?? []), ctx.principal)
      const { filter, request, answer } = paging(path, ctx.principal, query)
      return answer(expectDone(await selectProjectMembers(ctx, params.project_id, filter, request)))
    },

    async getProjectMember(ctx, { params }) {
      return memberAnswer(expectDone(await selectProjectMember(ctx, keyOf(params))))
    },

    async setProjectMember(ctx, { path, params, body, headers }) {
      const key = keyOf(params)
      const change = { ...key, role: body.role, mustExist: headers['if-match']?.trim() === '*' }
      const member = expectDone(await setProjectMember(withVersion(ctx, body.version), change))
      return member.isNew
        ? created<ProjectMember>(path, etagOf(member), { json: member.json, replayed: false })
        : memberAnswer(member)
    },

    async removeProjectMember(ctx, { params }) {
      expectDone(await deleteProjectMember(ctx, keyOf(params)))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const keyOf = (params: { readonly project_id: string; readonly user_id: string }) => ({
  projectId: params.project_id,
  userId: params.user_id,
})

/** The role also depends on the user's teams, so the ETag has a digest of the representation. */
const etagOf = ({ json, version }: ProjectMemberRow): string =>
  quoteETag(variantTag(version, hash('sha256', json, 'base64url')))

const memberAnswer = (member: ProjectMemberRow) => ({
  status: 200 as const,
  headers: { etag: etagOf(member) },
  body: jsonText<ProjectMember>(member.json),
})
