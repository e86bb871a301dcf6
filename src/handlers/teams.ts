import type { components } from '../../generated/openapi.ts'
import { created, ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import type { Paging } from '../http/paging.ts'
import {
  getTeamMember,
  listTeamMembers,
  removeTeamMember,
  setTeamMember,
} from '../services/projects/team-members.ts'
import { createTeam, deleteTeam, getTeam, listTeams, updateTeam } from '../services/projects/teams.ts'
import type { Handlers } from './handlers.ts'
import { memberResponse, upsertResponse } from './member-responses.ts'

interface Deps {
  readonly paging: Paging
}

type Team = components['schemas']['Team']
type TeamMember = components['schemas']['TeamMember']

/** The operations of the contract's tag `teams`. */
export const teamHandlers = ({ paging }: Deps) =>
  ({
    async listTeams(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTeams(ctx, filter, request))
    },

    async createTeam(ctx, { body }) {
      const team = await createTeam(ctx, body.name)
      return created<Team>(`/teams/${team.id}`, team, etagOf)
    },

    async getTeam(ctx, { params }) {
      return teamResponse(await getTeam(ctx, params.team_id))
    },

    async updateTeam(ctx, { params, body }) {
      return teamResponse(await updateTeam(ctx, params.team_id, body))
    },

    async deleteTeam(ctx, { params }) {
      await deleteTeam(ctx, params.team_id)
      return { status: 204 }
    },

    async listTeamMembers(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTeamMembers(ctx, params.team_id, filter, request))
    },

    async getTeamMember(ctx, { params }) {
      return memberResponse<TeamMember>(await getTeamMember(ctx, keyOf(params)))
    },

    async setTeamMember(ctx, { path, params, body }) {
      return upsertResponse<TeamMember>(path, await setTeamMember(ctx, keyOf(params), body.role))
    },

    async removeTeamMember(ctx, { params }) {
      await removeTeamMember(ctx, keyOf(params))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const keyOf = (params: { readonly team_id: string; readonly user_id: string }) => ({
  teamId: params.team_id,
  userId: params.user_id,
})

/** The entity tag includes the caller's role, which is part of the representation but not covered by the version. */
const etagOf = ({ version, role }: { readonly version: number; readonly role: string | null }): string =>
  quoteETag(variantTag(version, role ?? 'none'))

const teamResponse = (team: Versioned & { readonly role: string | null }) => ok<Team>(team, etagOf(team))
