import type { AccessTokens } from '../auth/access-tokens.ts'
import type { AttemptKeys } from '../auth/attempts.ts'
import type { ShouldAuditFailure } from '../auth/audited-failures.ts'
import { hashChallenge, hashInvitationToken, newChallenge, newRefreshToken } from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import { readCode } from '../auth/second-factor.ts'
import { recordAudit } from '../db/audit.ts'
import type { OpContext } from '../db/engine/context.ts'
import { hasInvitation } from '../db/invitations.ts'
import { insertSessionBySecondFactor, selectChallenged } from '../db/second-factors.ts'
import {
  challengeLifetime,
  insertChallenge,
  insertRegistration,
  insertSession,
  selectCredentials,
  hasAccounts,
  type VerifiedPassword,
} from '../db/sign-in.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { problems } from '../problems/problems.ts'
import { countCodeAttempt } from './check-code.ts'
import type { InvitationMode } from './invitations.ts'
import { type IssuedTokens, issueTokens } from './issue-tokens.ts'

interface Account {
  readonly username: string
  readonly email: string
  readonly displayName: string
  readonly timeZone: string
  readonly password: string
}

interface Registration {
  readonly account: Account
  /** The token of an invitation, which the account accepts; null without one. */
  readonly invitationToken: string | null
}

/** Registers users and signs them in. */
export interface SignIn {
  /** @throws Problem 403 when registration is closed and this is not the first account, 422 for an invalid invitation */
  register(ctx: OpContext, registration: Registration): Promise<IssuedTokens>
  /** @throws Problem 401 for a wrong password and when a second factor is required, 403 when disabled, 429 after too many attempts */
  signIn(ctx: OpContext, input: { readonly email: string; readonly password: string }): Promise<IssuedTokens>
  /** @throws Problem 401 for a wrong challenge or code, 429 after too many attempts */
  completeSignIn(
    ctx: OpContext,
    input: { readonly challenge: string; readonly code: string },
  ): Promise<IssuedTokens>
}

interface Deps {
  readonly accessTokens: AccessTokens
  readonly passwords: PasswordHasher
  readonly attemptKeys: AttemptKeys
  readonly secondFactorKeys: KeyRing
  readonly shouldAuditFailure: ShouldAuditFailure
  /** Whether more than the first user may register. */
  readonly isRegistrationOpen: boolean
  /** With `open`, an invitation also allows registering. */
  readonly invitations: InvitationMode
}

export const createSignIn = ({
  accessTokens,
  passwords,
  attemptKeys,
  secondFactorKeys,
  shouldAuditFailure,
  isRegistrationOpen,
  invitations,
}: Deps): SignIn => ({
  async register(ctx, { account: { password, ...fields }, invitationToken }) {
    const isOpen = isRegistrationOpen || (invitations === 'open' && invitationToken !== null)
    if (!isOpen && (await hasAccounts(ctx))) throw problems.registrationClosed()
    const invitationHash =
      invitationToken === null ? null : await findInvitation(ctx, invitations, invitationToken)
    const account = { ...fields, passwordHash: await passwords.hash(password) }
    const { token: refreshToken, hash: tokenHash } = newRefreshToken()
    const started = await insertRegistration(ctx, { account, isOpen, tokenHash, invitationHash })
    if (started === null) throw invitationHash === null ? problems.registrationClosed() : invalidInvitation()
    return issueTokens(accessTokens, started, { refreshToken })
  },

  async signIn(ctx, { email, password }) {
    const attemptKey = attemptKeys.ofSignIn(email, ctx.client)
    const { wait, credentials } = await selectCredentials(ctx, { email, attemptKey })
    if (wait > 0) throw problems.tooManyAttempts(wait)
    const { valid, rehash } = await passwords.verify(credentials?.passwordHash ?? null, password)
    if (credentials === null || !valid) {
      if (shouldAuditFailure(ctx.client))
        await recordAudit(ctx, 'sign_in.failed', { userId: credentials?.userId ?? null })
      throw problems.wrongPassword()
    }
    if (credentials.isDisabled) throw problems.accountDisabled()
    const { userId, passwordHash: oldHash } = credentials
    const newHash = rehash ? await passwords.hash(password) : oldHash
    const verified = { userId, oldHash, newHash, attemptKey }
    if (credentials.hasSecondFactor) throw await challenge(ctx, verified)
    const { token: refreshToken, hash: tokenHash } = newRefreshToken()
    const started = await insertSession(ctx, { verified, tokenHash })
    if (started === null) throw problems.wrongPassword()
    return issueTokens(accessTokens, started, { refreshToken })
  },

  async completeSignIn(ctx, { challenge, code: text }) {
    const challengeHash = hashChallenge(challenge)
    const factor = challengeHash && (await selectChallenged(ctx, challengeHash))
    if (challengeHash === null || factor === null) throw problems.wrongSecondFactor()
    const { userId } = factor
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, userId)
    const code = readCode(secondFactorKeys, factor, text)
    const { token: refreshToken, hash: tokenHash } = newRefreshToken()
    const answer = code && { userId, challengeHash, code, attemptKey, tokenHash }
    const started = answer && (await insertSessionBySecondFactor(ctx, answer))
    if (started === null) {
      await recordAudit(ctx, 'sign_in.failed', { userId })
      throw problems.wrongSecondFactor()
    }
    return issueTokens(accessTokens, started, { refreshToken })
  },
})

const invalidInvitation = (): Error => problems.invalidInvitation('/invitation_token')

/** The token hash of a valid invitation. Called before the password is hashed, which is expensive. */
const findInvitation = async (ctx: OpContext, mode: InvitationMode, token: string): Promise<Buffer> => {
  if (mode === 'off') throw problems.invitationsOff()
  const hash = hashInvitationToken(token)
  if (hash === null || !(await hasInvitation(ctx, hash))) throw invalidInvitation()
  return hash
}

/** Stores a challenge for the second factor, and returns the problem that contains it. */
const challenge = async (ctx: OpContext, verified: VerifiedPassword): Promise<Error> => {
  const { token, hash: tokenHash } = newChallenge()
  return (await insertChallenge(ctx, { verified, tokenHash }))
    ? problems.secondFactorRequired(token, challengeLifetime)
    : problems.wrongPassword()
}
