import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import type { Paging } from '../http/paging.ts'
import type { Invitations } from '../services/projects/invitations.ts'
import type { Handlers } from './handlers.ts'
import { projectResponse } from './projects.ts'

interface Deps {
  readonly paging: Paging
  readonly invitations: Invitations
}

type Schemas = components['schemas']

/** The operations of the contract's tag `invitations`. */
export const invitationHandlers = ({ paging, invitations }: Deps) =>
  ({
    async listProjectInvitations(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await invitations.list(ctx, params.project_id, request))
    },

    async createInvitation(ctx, { params, body }) {
      const projectId = params.project_id
      const { id, json, replayed } = await invitations.create(ctx, { ...body, projectId })
      return {
        status: 201,
        headers: { location: `/projects/${projectId}/invitations/${id}` },
        body: jsonText<Schemas['Invitation']>(json),
        replayed,
      }
    },

    async revokeInvitation(ctx, { params }) {
      await invitations.revoke(ctx, { projectId: params.project_id, id: params.invitation_id })
      return { status: 204 }
    },

    async lookUpInvitation(ctx, { body }) {
      const json = await invitations.lookUp(ctx, body.token)
      return { status: 200, body: jsonText<Schemas['InvitationPreview']>(json) }
    },

    async acceptInvitation(ctx, { body }) {
      return projectResponse(await invitations.accept(ctx, body.token))
    },
  }) satisfies Partial<Handlers>
