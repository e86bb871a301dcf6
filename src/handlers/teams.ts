import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { selectTeamMember, selectTeamMembers } from '../db/team-members.ts'
import { selectTeam, selectTeams, type TeamRow } from '../db/teams.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll, expectScopes } from '../problems/problems.ts'
import { removeTeamMember, setTeamMember } from '../services/team-members.ts'
import { createTeam, deleteTeam, updateTeam } from '../services/teams.ts'
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
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectTeams(ctx, filter, request))
    },

    async createTeam(ctx, { body }) {
      const team = await createTeam(ctx, body.name)
      return created<Team>(`/teams/${team.id}`, etagOf({ version: 1, role: 'manager' }), team)
    },

    async getTeam(ctx, { params }) {
      return teamResponse(expectDone(await selectTeam(ctx, params.team_id)))
    },

    async updateTeam(ctx, { params, body }) {
      return teamResponse(await updateTeam(ctx, params.team_id, body))
    },

    async deleteTeam(ctx, { params }) {
      await deleteTeam(ctx, params.team_id)
      return { status: 204 }
    },

    async listTeamMembers(ctx, { path, params, query }) {
      expectScopes(scopesOfExpansions(query.expand ?? []), ctx.principal)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectTeamMembers(ctx, params.team_id, filter, request)))
    },

    async getTeamMember(ctx, { params }) {
      return memberResponse<TeamMember>(expectDone(await selectTeamMember(ctx, keyOf(params))))
    },

    async setTeamMember(ctx, { path, params, body }) {
      return upsertResponse<TeamMember>(path, await setTeamMember(ctx, keyOf(params), body))
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
const etagOf = ({ version, role }: Pick<TeamRow, 'version' | 'role'>): string =>
  quoteETag(variantTag(version, role ?? 'none'))

const teamResponse = (team: TeamRow) => ({
  status: 200 as const,
  headers: { etag: etagOf(team) },
  body: jsonText<Team>(team.json),
})
