import type { OidcProvider } from '../config/oidc.ts'
import { canonicalEmail } from '../domain/accounts/email-address.ts'
import { applyTeamRules, type RuledTeams } from '../domain/projects/team-rules.ts'
import { hasTooManyMarks, isCleanText, isVisible, toNfc } from '../domain/shared/text.ts'
import { canonicalTimeZone, defaultTimeZone } from '../domain/shared/time-zones.ts'
import type { TeamRole } from '../domain/shared/team-roles.ts'

export type ClaimSet = Readonly<Record<string, unknown>>

/** What a provider has said about somebody whom it has authenticated, as plain values. */
export interface ProvenIdentity {
  readonly provider: string
  /** Together with `subject`, who it is: nothing else identifies anybody. */
  readonly issuer: string
  readonly subject: string
  /** In canonical form; null if there is none that an account can have. */
  readonly email: string | null
  readonly isEmailVerified: boolean
  /** For the name of a new account. */
  readonly username: string
  readonly displayName: string | null
  readonly timeZone: string
  /** When they have authenticated, in whole seconds since the epoch; null if the provider does not say. */
  readonly authTime: number | null
  /** Whether the provider has asked for what its operator counts as a second factor. */
  readonly hasSecondFactor: boolean
  /** The provider's session, for its logout; null if there is none. */
  readonly sid: string | null
  readonly teams: PlainTeams
}

/** `RuledTeams` that can be stored. */
export interface PlainTeams {
  readonly roles: readonly (readonly [team: string, role: TeamRole])[]
  readonly unknown: readonly string[]
  readonly overflown: readonly string[]
}

/** What the user info may add, besides the address: a profile. When and how somebody has authenticated is for the ID token alone. */
const profileClaims = [
  'name',
  'given_name',
  'family_name',
  'nickname',
  'preferred_username',
  'zoneinfo',
] as const

/** Claims with a meaning of their own, which a rule for teams can name too. */
const protectedClaims: ReadonlySet<string> = new Set([
  'iss',
  'sub',
  'sid',
  'amr',
  'acr',
  'auth_time',
  '_claim_names',
  'email',
  'email_verified',
])

/** The names of the claims that are used, and so have to come from the user info if the ID token lacks one. */
export const wantedClaims = ({ teams }: OidcProvider): readonly string[] => [
  'email',
  'email_verified',
  'name',
  'preferred_username',
  ...teams.map(({ claim }) => claim),
]

/**
 * Claims of the ID token, and a profile and groups of the user info, which is not signed. Whether an address is verified comes from where
 * the address does.
 */
export const mergeClaims = ({ teams }: OidcProvider, idToken: ClaimSet, userInfo: ClaimSet): ClaimSet => {
  const ruled = teams.map(({ claim }) => claim).filter((claim) => !protectedClaims.has(claim))
  const added = [...profileClaims, ...ruled].filter((name) => Object.hasOwn(userInfo, name))
  const { email, email_verified } = Object.hasOwn(idToken, 'email') ? idToken : userInfo
  return {
    ...Object.fromEntries(added.map((name) => [name, userInfo[name]])),
    ...idToken,
    email,
    email_verified,
  }
}

/** Characters of `sub` (OpenID Connect Core, section 2), and of `sid`. */
const maxIdentifier = 255

/** @throws TypeError for a subject that cannot be stored */
export const readClaims = (provider: OidcProvider, claims: ClaimSet): ProvenIdentity => {
  const { iss, sub, email, email_verified, auth_time, amr, acr, sid, zoneinfo } = claims
  const subject = identifierOf(sub)
  if (subject === null || typeof iss !== 'string') throw new TypeError('The ID token has no usable sub')
  const methods = Array.isArray(amr) ? amr : []
  return {
    provider: provider.id,
    issuer: iss,
    subject,
    email: addressOf(email),
    // A text is not a boolean: "false" would be true.
    isEmailVerified: email_verified === true,
    username: usernameOf(claims),
    displayName: displayNameOf(claims),
    timeZone: (typeof zoneinfo === 'string' ? canonicalTimeZone(zoneinfo) : null) ?? defaultTimeZone,
    authTime: auth_time === undefined ? null : secondsOf(auth_time),
    hasSecondFactor:
      provider.secondFactor.amr.some((method) => methods.includes(method)) ||
      provider.secondFactor.acr.some((level) => level === acr),
    sid: identifierOf(sid),
    teams: plainTeams(applyTeamRules(provider.teams, claims)),
  }
}

/**
 * Null if there is none that an account can have. A mailbox with letters outside of ASCII is another one than that of their compatibility
 * forms in ASCII, so its address must not become that.
 */
const addressOf = (email: unknown): string | null => {
  if (typeof email !== 'string' || hasTooManyMarks(email)) return null
  if (!/^\p{ASCII}*$/u.test(email.slice(0, email.lastIndexOf('@')))) return null
  const address = canonicalEmail(email)
  return address !== null && address.length <= 254 ? address : null
}

/** The end of the year 9999, in seconds since the epoch. */
const maxSeconds = 253_402_300_799

/** A time that can be stored. @throws TypeError */
export const secondsOf = (value: unknown): number => {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > maxSeconds)
    throw new TypeError(`a time in the token is not a number of seconds: ${String(value).slice(0, 50)}`)
  return value
}

const plainTeams = ({ roles, unknown, overflown }: RuledTeams): PlainTeams => ({
  roles: [...roles],
  unknown: [...unknown],
  overflown,
})

export const identifierOf = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= maxIdentifier && isCleanText(value)
    ? value
    : null

const textOf = (claims: ClaimSet, name: string): string => {
  const value = claims[name]
  const isText = typeof value === 'string' && value.length <= 1_024
  return isText && isCleanText(value) && !hasTooManyMarks(value) ? toNfc(value).trim() : ''
}

/** Leaves room for a suffix in the 32 characters of a username. */
const maxUsername = 26

/** A valid username, from what the provider suggests or the address. */
const withoutPunctuationAtEnd = (text: string): string =>
  text.slice(0, 1 + Math.max(...Array.from(text, (letter, index) => (/[a-z0-9]/.test(letter) ? index : -1))))

const usernameOf = (claims: ClaimSet): string => {
  const candidates = ['preferred_username', 'nickname', 'email', 'name'].map((name) =>
    (textOf(claims, name).split('@')[0] ?? '')
      .normalize('NFKD')
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]+/g, '-')
      .replaceAll(/-{2,}/g, '-')
      .slice(0, maxUsername),
  )
  // With a letter or a digit at both ends.
  const trimmed = candidates.map((name) => /[a-z0-9].*/.exec(name)?.[0] ?? '').map(withoutPunctuationAtEnd)
  return trimmed.find((name) => name.length >= 2) ?? 'user'
}

/** In code points. */
const maxDisplayName = 100

const displayNameOf = (claims: ClaimSet): string | null => {
  const parts = [textOf(claims, 'given_name'), textOf(claims, 'family_name')]
  const name = textOf(claims, 'name') || parts.filter((part) => part !== '').join(' ')
  const shortened = Array.from(name).slice(0, maxDisplayName).join('').trim()
  return isVisible(shortened) ? shortened : null
}
