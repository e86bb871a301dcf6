import type { OidcProvider } from '../config/oidc.ts'
import { canonicalEmail } from '../domain/email-address.ts'
import { applyTeamRules, type RuledTeams } from '../domain/team-rules.ts'
import { hasTooManyMarks, isCleanText, isVisible, toNfc } from '../domain/text.ts'
import { canonicalTimeZone, defaultTimeZone } from '../domain/time-zones.ts'
import type { TeamRole } from '../domain/team-roles.ts'

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
  /** When they have authenticated, in seconds since the epoch; null if the provider does not say. */
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

/** The names of the claims that are used, and so have to come from the user info if the ID token lacks one. */
export const wantedClaims = ({ teams }: OidcProvider): readonly string[] => [
  'email',
  'email_verified',
  'name',
  'preferred_username',
  ...teams.map(({ claim }) => claim),
]

/** Claims of the ID token, and further ones of the user info. Whether an address is verified comes from where the address does. */
export const mergeClaims = (idToken: ClaimSet, userInfo: ClaimSet): ClaimSet => {
  const { email, email_verified, ...others } = userInfo
  const address = Object.hasOwn(idToken, 'email') ? {} : { email, email_verified }
  return { ...others, ...address, ...idToken }
}

/** Characters of `sub` (OpenID Connect Core, section 2), and of `sid`. */
const maxIdentifier = 255

/** @throws TypeError for a subject that cannot be stored */
export const readClaims = (provider: OidcProvider, claims: ClaimSet): ProvenIdentity => {
  const { iss, sub, email, email_verified, auth_time, amr, acr, sid, zoneinfo } = claims
  const subject = identifierOf(sub)
  if (subject === null || typeof iss !== 'string') throw new TypeError('The ID token has no usable sub')
  const address = typeof email === 'string' && !hasTooManyMarks(email) ? canonicalEmail(email) : null
  const methods = Array.isArray(amr) ? amr : []
  return {
    provider: provider.id,
    issuer: iss,
    subject,
    email: address !== null && address.length <= 254 ? address : null,
    // A text is not a boolean: "false" would be true.
    isEmailVerified: email_verified === true,
    username: usernameOf(claims),
    displayName: displayNameOf(claims),
    timeZone: (typeof zoneinfo === 'string' ? canonicalTimeZone(zoneinfo) : null) ?? defaultTimeZone,
    authTime: typeof auth_time === 'number' && Number.isFinite(auth_time) ? auth_time : null,
    hasSecondFactor:
      provider.secondFactor.amr.some((method) => methods.includes(method)) ||
      provider.secondFactor.acr.some((level) => level === acr),
    sid: identifierOf(sid),
    teams: plainTeams(applyTeamRules(provider.teams, claims)),
  }
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
