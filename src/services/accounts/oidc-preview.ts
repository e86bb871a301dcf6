import { findIdentity, findUserByEmail } from '../../db/accounts/identities.ts'
import { selectUser } from '../../db/accounts/users.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { misshapenClaims, type TeamChange } from '../../domain/projects/team-rules.ts'
import { type ClaimSet, readClaims } from '../../oidc/claims.ts'
import type { Provider } from '../../oidc/providers.ts'
import type { OpContext } from '../shared/context.ts'
import { type CreationMode, isTakenOver, refusalOfAccount } from './oidc-sign-in.ts'
import { planRuledTeams } from '../projects/ruled-teams.ts'

/** What a sign-in with these claims would do, in lines of text. Nothing is changed. */
export const previewSignIn = async (
  ctx: OpContext<Principal>,
  { settings }: Provider,
  { claims, create }: { readonly claims: ClaimSet; readonly create: CreationMode },
): Promise<readonly string[]> => {
  const identity = readClaims(settings, { iss: settings.issuer, ...claims })
  const { issuer, subject, email, isEmailVerified, teams } = identity
  const linked = await findIdentity(ctx, identity)
  const byAddress = email === null ? null : await findUserByEmail(ctx, email)
  const takenOver =
    isEmailVerified && settings.linksByEmail && byAddress !== null && isTakenOver(byAddress, identity)
      ? byAddress
      : null
  const accountLine = async (): Promise<string> => {
    if (linked !== null) return `signs in to ${await nameOf(ctx, linked.userId)}`
    if (takenOver !== null)
      return `links to ${await nameOf(ctx, takenOver.id)} by its address, and ends all earlier access to it`
    const refusal = refusalOfAccount(identity, {
      isAddressTaken: byAddress !== null,
      isInvited: false,
      create,
      trustsEmail: settings.trustsEmail,
    })
    return refusal === null
      ? `creates ${identity.username} <${email}>`
      : `refused: ${refusal.status} ${refusal.code}. ${refusal.message}`
  }
  const userId = linked?.userId ?? takenOver?.id
  const changes: readonly TeamChange[] =
    userId === undefined
      ? teams.roles.map(([team, role]) => ({ team, role }))
      : await planRuledTeams(ctx, { userId, issuer, teams })
  return [
    `identity: ${issuer} ${subject}`,
    `address: ${email ?? 'none'}${email !== null && !isEmailVerified ? ', not verified' : ''}`,
    `account: ${await accountLine()}`,
    `second factor: ${identity.hasSecondFactor ? 'that of the provider counts' : 'that of the account is asked, if it has one'}`,
    ...changes.map(({ team, role }) => (role === null ? `team ${team}: leaves` : `team ${team}: ${role}`)),
    ...(changes.length === 0 ? ['teams: no change'] : []),
    ...teams.unknown.map((team) => `team ${team}: not changed, because the claim of its rule is missing`),
    ...misshapenClaims(settings.teams, claims).map(
      ([claim, shape]) => `claim ${claim}: matches no rule, because it is ${shape}`,
    ),
    ...teams.overflown.map(
      (claim) => `claim ${claim}: left out by the provider, because it has too many values`,
    ),
  ]
}

const nameOf = async (ctx: OpContext<Principal>, id: string): Promise<string> => {
  const user = await selectUser(ctx, id)
  return user === null ? id : (JSON.parse(user.json) as { readonly username: string }).username
}
