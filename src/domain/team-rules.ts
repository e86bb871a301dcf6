import type { TeamRole } from './team-roles.ts'

/** Gives users with a value of a claim a role in a team. */
export interface TeamRule {
  readonly claim: string
  /** An exact value, in which `*` stands for any characters. */
  readonly value: string
  /** The id of the team. */
  readonly team: string
  readonly role: TeamRole
}

/** What rules make of the claims of a user. */
export interface RuledTeams {
  /** The role in each team that a rule gives the user. The highest counts. */
  readonly roles: ReadonlyMap<string, TeamRole>
  /**
   * The teams whose claim is missing, or too large for the provider to send: nothing is known about them, and nothing changes. A claim
   * without values is present.
   */
  readonly unknown: ReadonlySet<string>
  /** The claims that the provider has left out because there are too many values (Microsoft Entra ID). */
  readonly overflown: readonly string[]
}

type Claims = Readonly<Record<string, unknown>>

/** Applies rules to the claims of a user. */
export const applyTeamRules = (rules: readonly TeamRule[], claims: Claims): RuledTeams => {
  const roles = new Map<string, TeamRole>()
  const unknown = new Set<string>()
  const overflown = new Set<string>()
  for (const { claim, value, team, role } of rules) {
    const values = valuesOf(claims, claim)
    if (values === null) {
      unknown.add(team)
      if (isOverflown(claims, claim)) overflown.add(claim)
    } else if (values.some((one) => matches(value, one)) && roles.get(team) !== 'manager')
      roles.set(team, role)
  }
  return { roles, unknown, overflown: [...overflown] }
}

/** Null if the claim is missing or is no text. */
const valuesOf = (claims: Claims, name: string): readonly string[] | null => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (typeof value === 'string') return [value]
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null
}

/** The claim is distributed (OpenID Connect Core, section 5.6.2): its name is in `_claim_names`, and its values are elsewhere. */
const isOverflown = ({ _claim_names: names, hasgroups }: Claims, claim: string): boolean =>
  (typeof names === 'object' && names !== null && Object.hasOwn(names, claim)) ||
  (claim === 'groups' && hasgroups === true)

/** Whether a text matches a pattern. In linear time for each part between two `*`. */
export const matches = (pattern: string, text: string): boolean => {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return text === first
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
    return false
  const end = text.length - last.length
  let from = first.length
  for (const part of rest) {
    const at = text.indexOf(part, from)
    if (at === -1 || at + part.length > end) return false
    from = at + part.length
  }
  return true
}

/** A membership that a user has now. */
export interface PresentMembership {
  readonly team: string
  readonly role: TeamRole
  /** Whether rules of the same provider made it. */
  readonly isRuled: boolean
}

/** What changes for a user in a team. A role of null ends the membership. */
export interface TeamChange {
  readonly team: string
  readonly role: TeamRole | null
}

/** The changes that rules cause, by team. Memberships that people or other providers made stay as they are. */
export const planTeams = (
  roles: ReadonlyMap<string, TeamRole>,
  unknown: ReadonlySet<string>,
  present: readonly PresentMembership[],
): readonly TeamChange[] => {
  const members = new Map(present.map((membership) => [membership.team, membership]))
  const isRaised = (before: TeamRole | undefined, after: TeamRole): boolean =>
    before === undefined || (before === 'member' && after === 'manager')
  const given = [...roles].filter(([team, role]) => {
    const before = members.get(team)
    if (before?.isRuled === false || before?.role === role) return false
    // Another claim, which is unknown, may give the higher role.
    return !unknown.has(team) || isRaised(before?.role, role)
  })
  const ended = present.filter(({ team, isRuled }) => isRuled && !roles.has(team) && !unknown.has(team))
  return [
    ...given.map(([team, role]) => ({ team, role })),
    ...ended.map(({ team }) => ({ team, role: null })),
  ].toSorted((a, b) => (a.team < b.team ? -1 : 1))
}
