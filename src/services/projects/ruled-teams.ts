import { applyTeamChange, membershipsOf } from '../../db/projects/team-sources.ts'
import { LastManager } from '../../domain/projects/managers.ts'
import { planTeams, type TeamChange } from '../../domain/projects/team-rules.ts'
import type { PlainTeams } from '../../oidc/claims.ts'
import { type OpContext, transaction } from '../shared/context.ts'

/** Teams from the claims of an identity provider. */

/** Whose teams follow which claims. */
interface RuledUser {
  readonly userId: string
  readonly issuer: string
  readonly teams: PlainTeams
}

/** The changes that the claims of a user cause. */
export const planRuledTeams = async (
  ctx: OpContext,
  { userId, issuer, teams }: RuledUser,
): Promise<readonly TeamChange[]> => {
  const present = await membershipsOf(ctx, userId)
  return planTeams(
    new Map(teams.roles),
    new Set(teams.unknown),
    present.map(({ team, role, source }) => ({ team, role, isRuled: source === issuer })),
  )
}

/** The teams of an identity that is unlinked. */
const noTeams = { roles: [], unknown: [], overflown: [] } as const

interface Log {
  warn(fields: object, message: string): void
}

/**
 * Makes the memberships of a user follow their claims, a team at a time. What cannot be done is left as it is and logged, because its
 * caller has signed in or unlinked the identity already.
 */
export const applyRuledTeams = async (ctx: OpContext, user: RuledUser, log: Log): Promise<void> => {
  const { userId, issuer, teams } = user
  for (const claim of teams.overflown)
    log.warn(
      { user_id: userId, issuer, claim },
      'The provider has left a claim out because it has too many values, so the teams of its rules were not changed: let it send only the groups of this application',
    )
  try {
    for (const change of await planRuledTeams(ctx, user)) await applyRule(ctx, user, change, log)
  } catch (error) {
    log.warn(
      { err: error, user_id: userId, issuer },
      'Teams do not follow the claims of the provider until the next sign-in',
    )
  }
}

const applyRule = async (
  ctx: OpContext,
  { userId, issuer }: RuledUser,
  change: TeamChange,
  log: Log,
): Promise<void> => {
  const fields = { user_id: userId, issuer, team_id: change.team }
  try {
    const exists = await transaction(ctx, (tx) => applyTeamChange(tx, { userId, source: issuer }, change))
    if (!exists) log.warn(fields, 'A rule in OIDC_CONFIG names a team that does not exist')
  } catch (error) {
    if (!(error instanceof LastManager)) throw error
    log.warn(fields, 'The user stays in the team, as its last manager or that of one of its projects')
  }
}

/** Ends the memberships that the claims of unlinked identities have made. */
export const leaveRuledTeams = async (
  ctx: OpContext,
  { userId, issuers }: { readonly userId: string; readonly issuers: readonly string[] },
  log: Log,
): Promise<void> => {
  for (const issuer of issuers) await applyRuledTeams(ctx, { userId, issuer, teams: noTeams }, log)
}
