import type { components } from '../../generated/openapi.ts'
import type { Paging } from '../http/paging.ts'
import {
  getProjectMember,
  listProjectMembers,
  removeProjectMember,
  setProjectMember,
} from '../services/projects/members.ts'
import {
  getProjectTeam,
  listProjectTeams,
  removeProjectTeam,
  setProjectTeam,
} from '../services/projects/member-teams.ts'
import type { Handlers } from './handlers.ts'
import { memberResponse, upsertResponse } from './member-responses.ts'

interface Deps {
  readonly paging: Paging
}

type ProjectMember = components['schemas']['ProjectMember']
type ProjectTeam = components['schemas']['ProjectTeam']

/** The operations of the contract's tag `members`. */
export const memberHandlers = ({ paging }: Deps) =>
  ({
    async listProjectMembers(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listProjectMembers(ctx, params.project_id, filter, request))
    },

    async getProjectMember(ctx, { params }) {
      return memberResponse<ProjectMember>(await getProjectMember(ctx, keyOf(params)))
    },

    async setProjectMember(ctx, { path, params, body }) {
      return upsertResponse<ProjectMember>(path, await setProjectMember(ctx, keyOf(params), body.role))
    },

    async removeProjectMember(ctx, { params }) {
      await removeProjectMember(ctx, keyOf(params))
      return { status: 204 }
    },

    async listProjectTeams(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listProjectTeams(ctx, params.project_id, request))
    },

    async getProjectTeam(ctx, { params }) {
      return memberResponse<ProjectTeam>(await getProjectTeam(ctx, teamKeyOf(params)))
    },

    async setProjectTeam(ctx, { path, params, body }) {
      return upsertResponse<ProjectTeam>(path, await setProjectTeam(ctx, teamKeyOf(params), body.role))
    },

    async removeProjectTeam(ctx, { params }) {
      await removeProjectTeam(ctx, teamKeyOf(params))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const keyOf = (params: { readonly project_id: string; readonly user_id: string }) => ({
  projectId: params.project_id,
  userId: params.user_id,
})

const teamKeyOf = (params: { readonly project_id: string; readonly team_id: string }) => ({
  projectId: params.project_id,
  teamId: params.team_id,
})
