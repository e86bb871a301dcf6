import type { TeamRole } from '../shared/team-roles.ts'

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

/** Null if the claim is missing, or has no text although it is not empty. */
const valuesOf = (claims: Claims, name: string): readonly string[] | null => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (typeof value === 'string') return [value]
  if (!Array.isArray(value)) return null
  const texts = value.filter((one) => typeof one === 'string')
  return texts.length === 0 && value.length > 0 ? null : texts
}

/** The claims of rules with values that no rule can match, and what they are instead: an operator has to change the claim. */
export const misshapenClaims = (
  rules: readonly TeamRule[],
  claims: Claims,
): readonly (readonly [claim: string, shape: string])[] =>
  [...new Set(rules.map(({ claim }) => claim))].flatMap((claim) => {
    const values = rules.filter((rule) => rule.claim === claim).map(({ value }) => value)
    const shape = shapeOf(claims, claim, values)
    return shape === null ? [] : [[claim, shape] as const]
  })

/** Null if the rules can match the claim, or it is missing. */
const shapeOf = (claims: Claims, name: string, patterns: readonly string[]): string | null => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (value === undefined) return nestedIn(claims, name)
  if (typeof value === 'string') {
    const isList = /[\s,;[{]/.test(value) && !patterns.some((pattern) => matches(pattern, value))
    return isList ? 'a text that looks like a list, which is compared as a whole' : null
  }
  if (!Array.isArray(value)) return kindOf(value)
  const others = new Set(value.filter((one) => typeof one !== 'string').map(kindOf))
  return others.size === 0 ? null : `a list in which there is ${[...others].join(', and ')}`
}

/** For a claim that is missing, whether its name is that of a member of another one (`realm_access.roles`). */
const nestedIn = (claims: Claims, name: string): string | null => {
  const [outer = '', ...path] = name.split('.')
  if (path.length === 0 || !Object.hasOwn(claims, outer)) return null
  let value: unknown = claims[outer]
  for (const member of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, member)) return null
    value = Reflect.get(value, member)
  }
  return `nested in the claim ${outer}`
}

const kindOf = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object'
    ? `an object with ${Object.keys(value).slice(0, 5).join(', ') || 'no members'}`
    : `a ${typeof value}`
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
