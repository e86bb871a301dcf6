import type { AccessTokens } from '../../auth/access-tokens.ts'
import type { AttemptKeys } from '../../auth/attempts.ts'
import type { ShouldAuditFailure } from '../../auth/audited-failures.ts'
import {
  hashChallenge,
  hashInvitationToken,
  newChallenge,
  newRefreshToken,
} from '../../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../../auth/passwords.ts'
import { lockAccount, rehashPassword } from '../../db/accounts/lock.ts'
import { forgetAttempts, insertAttempt } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { hasInvitation, join, lockInvitation } from '../../db/projects/invitations.ts'
import { findUserOfToken, takeOneTimeToken } from '../../db/accounts/one-time-tokens.ts'
import { useIdentity } from '../../db/accounts/identities.ts'
import { actAs } from '../../db/shared/record-event.ts'
import { type StartedSession, viewStarted } from '../../db/accounts/refresh-tokens.ts'
import {
  challengeLifetime,
  claimInstallation,
  hasAccounts,
  insertChallenge,
  selectStoredPassword,
  selectStoredPasswordByUsername,
  type StoredPassword,
} from '../../db/accounts/sign-in.ts'
import { insertUser } from '../../db/accounts/users.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { ProvenIdentity } from '../../oidc/claims.ts'
import { problems } from '../../problems/problems.ts'
import { countCodeAttempt, proveCode } from './check-code.ts'
import type { UsablePassword } from './check-password.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectTimeZone } from '../shared/expectations.ts'
import type { InvitationMode } from '../projects/invitations.ts'
import { type IssuedTokens, issueTokens } from './issue-tokens.ts'
import { applyRuledTeams } from '../projects/ruled-teams.ts'
import { startSession } from './start-session.ts'

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

/** An account has one of the two names. */
interface Credentials {
  readonly email?: string
  readonly username?: string
  readonly password: string
}

/** Registers users and signs them in. */
export interface SignIn {
  /** @throws Problem 403 when registration is closed and this is not the first account, 422 for an invalid invitation */
  register(ctx: OpContext, registration: Registration): Promise<IssuedTokens>
  /** @throws Problem 400 for no name or two, 401 for a wrong password and when a second factor is required, 403 when disabled, 429 after too many attempts */
  signIn(ctx: OpContext, input: Credentials): Promise<IssuedTokens>
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
  /** The lifetime of a session that an identity provider has begun. */
  readonly providerSessionHours: number
  /** After so many days without a sign-in with an identity provider, API tokens are suspended. */
  readonly reauthDays: number
  readonly usablePassword: UsablePassword
  /** Whether passwords are closed, but for accounts that an operator has exempted. */
  readonly isOnly: boolean
  readonly log: { warn(fields: object, message: string): void }
}

/** What an identity provider has said that applies once the second factor is proven, too. */
type ChallengedClaims = Pick<ProvenIdentity, 'issuer' | 'email' | 'teams'>

/** To be stored with a challenge. */
export const challengedClaims = ({ issuer, email, teams }: ChallengedClaims): string =>
  JSON.stringify({ issuer, email, teams })

const parseClaims = (text: string): ChallengedClaims => JSON.parse(text) as ChallengedClaims

export const createSignIn = ({
  accessTokens,
  passwords,
  attemptKeys,
  secondFactorKeys,
  shouldAuditFailure,
  isRegistrationOpen,
  invitations,
  providerSessionHours,
  reauthDays,
  usablePassword,
  isOnly,
  log,
}: Deps): SignIn => ({
  async register(ctx, { account: { password, ...fields }, invitationToken }) {
    if (isOnly) throw problems.passwordsClosed()
    const isOpen = isRegistrationOpen || (invitations === 'open' && invitationToken !== null)
    if (!isOpen && (await hasAccounts(ctx))) throw problems.registrationClosed()
    const invitationHash =
      invitationToken === null ? null : await findInvitation(ctx, invitations, invitationToken)
    await expectTimeZone(ctx, fields.timeZone)
    const passwordHash = await passwords.hash(password)
    const { token: refreshToken, hash: tokenHash } = newRefreshToken()
    const id = newId()
    const started = await transaction(ctx, async (tx) => {
      const isFirst = await claimInstallation(tx)
      if (!isOpen && !isFirst) throw problems.registrationClosed()
      const invitation = invitationHash === null ? null : await lockInvitation(tx, invitationHash)
      if (invitationHash !== null && invitation === null) throw invalidInvitation()
      await pipeline(tx.db, {
        user: () => insertUser(tx, id, { ...fields, passwordHash, role: isFirst ? 'admin' : 'member' }),
        session: () => startSession(tx, { userId: id, tokenHash, action: 'user.registered' }),
        actor: () => invitation && actAs(tx, id),
        membership: () => invitation && join(tx, id, invitation),
      })
      return last(viewStarted(tx, tokenHash))
    })
    return issueTokens(accessTokens, started, { refreshToken })
  },

  async signIn(ctx, { password, ...name }) {
    const { wait, attemptKey, stored } = await countSignIn(ctx, attemptKeys, name)
    if (wait > 0) throw problems.tooManyAttempts(wait)
    const passwordHash = stored && usablePassword(stored)
    // As much work for an unknown name, and for an account without a password.
    const { valid, rehash } = await passwords.verify(passwordHash, password)
    const wrongPassword = async (): Promise<Error> => {
      if (shouldAuditFailure(ctx.client))
        await recordAudit(ctx, 'sign_in.failed', { userId: stored?.userId ?? null })
      return problems.wrongPassword()
    }
    if (stored === null || !valid) throw await wrongPassword()
    const newHash = rehash ? await passwords.hash(password) : null
    const [refreshToken, challenge] = [newRefreshToken(), newChallenge()]
    const started = await transaction<Principal | null, SignedIn>(ctx, async (tx) => {
      const account = await lockAccount(tx, stored.userId)
      if (account === null || usablePassword(account) !== passwordHash) return 'wrong_password'
      if (account.isDisabled) throw problems.accountDisabled()
      const { id: userId, secondFactor } = account
      const proven = {
        attempts: () => forgetAttempts(tx, attemptKey),
        hash: () => newHash !== null && rehashPassword(tx, account, newHash),
      }
      if (secondFactor?.isConfirmed === true) {
        await pipeline(tx.db, {
          ...proven,
          challenge: () => insertChallenge(tx, account, { hash: challenge.hash }),
          audit: () => recordAudit(tx, 'sign_in.challenged', { userId }),
        })
        return 'challenged'
      }
      await pipeline(tx.db, {
        ...proven,
        session: () => startSession(tx, { userId, tokenHash: refreshToken.hash }),
      })
      return last(viewStarted(tx, refreshToken.hash))
    })
    if (started === 'wrong_password') throw await wrongPassword()
    if (started === 'challenged') throw problems.secondFactorRequired(challenge.token, challengeLifetime)
    return issueTokens(accessTokens, started, { refreshToken: refreshToken.token })
  },

  async completeSignIn(ctx, { challenge, code }) {
    const challengeHash = hashChallenge(challenge)
    const wanted = challengeHash && ({ purpose: 'sign_in', hash: challengeHash } as const)
    const userId = wanted && (await findUserOfToken(ctx, wanted))
    if (wanted === null || userId === null) throw problems.wrongSecondFactor()
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, userId)
    const { token: refreshToken, hash: tokenHash } = newRefreshToken()
    const started = await transaction(ctx, async (tx) => {
      const { account, challengedId } = await pipeline(tx.db, {
        account: () => lockAccount(tx, userId),
        challengedId: () => findUserOfToken(tx, wanted),
      })
      if (account === null || account.isDisabled || challengedId === null) return null
      const { secondFactor } = account
      if (secondFactor?.isConfirmed !== true) return null
      if (!(await proveCode(tx, secondFactorKeys, secondFactor, code))) return null
      const { taken } = await pipeline(tx.db, {
        taken: () => takeOneTimeToken(tx, wanted),
        attempts: () => forgetAttempts(tx, attemptKey),
      })
      const { identity_id: id = null, sid = null } = taken ?? {}
      const claims = taken?.claims == null ? null : parseClaims(taken.claims)
      const identity = id === null ? null : { id, sid, hours: providerSessionHours }
      await pipeline(tx.db, {
        identity: () =>
          id !== null && claims && useIdentity(tx, { id, userId, email: claims.email }, reauthDays),
        session: () => startSession(tx, { userId, tokenHash, identity }),
      })
      return last(viewStarted(tx, tokenHash).then((session) => ({ session, claims })))
    })
    if (started === null) {
      await recordAudit(ctx, 'sign_in.failed', { userId })
      throw problems.wrongSecondFactor()
    }
    const { session, claims } = started
    if (claims !== null) await applyRuledTeams(ctx, { userId, ...claims }, log)
    return issueTokens(accessTokens, session, { refreshToken })
  },
})

interface CountedAttempt {
  /** In seconds. Greater than 0 if the attempt is refused. */
  readonly wait: number
  readonly attemptKey: Buffer
  /** Null for an unknown name. */
  readonly stored: StoredPassword | null
}

/**
 * Counts an attempt at an account by one of its names. Each name has its own counter: a common one would tell which private email address
 * belongs to a username.
 */
const countSignIn = async (
  ctx: OpContext,
  attemptKeys: AttemptKeys,
  { email, username }: Omit<Credentials, 'password'>,
): Promise<CountedAttempt> => {
  if (email !== undefined && username !== undefined) throw problems.twoAccountNames()
  const name = email ?? username
  if (name === undefined) throw problems.noAccountName()
  const attemptKey = attemptKeys.signInKey(name, ctx.client)
  // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
  const [wait, stored] = await Promise.all([
    insertAttempt(ctx, attemptKey),
    email === undefined ? selectStoredPasswordByUsername(ctx, name) : selectStoredPassword(ctx, name),
  ])
  return { wait, attemptKey, stored }
}

/** The session of a sign-in, or why there is none yet. */
type SignedIn = StartedSession | 'challenged' | 'wrong_password'

export const invalidInvitation = (): Error => problems.invalidInvitation('/invitation_token')

/** The token hash of a valid invitation. Called before the password is hashed, which is expensive. */
export const findInvitation = async (
  ctx: OpContext,
  mode: InvitationMode,
  token: string,
): Promise<Buffer> => {
  if (mode === 'off') throw problems.invitationsOff()
  const hash = hashInvitationToken(token)
  if (hash === null || !(await hasInvitation(ctx, hash))) throw invalidInvitation()
  return hash
}
