import type { components } from '../../generated/openapi.ts'
import { type AccessTokens, accessTokenLifetime } from '../auth/access-tokens.ts'
import type { TakesFailure } from '../auth/audited-failures.ts'
import type { AttemptKeys } from '../auth/attempts.ts'
import type { Credentials } from '../auth/credentials.ts'
import {
  hashChallenge,
  hashRefreshToken,
  newChallenge,
  newRefreshToken,
  newResetToken,
  nextRefreshToken,
  hashUndoToken,
} from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import type { ReauthenticateByPassword } from '../services/reauthenticate.ts'
import { readCode } from '../auth/second-factor.ts'
import { sha256 } from '../auth/sha256.ts'
import { insertAttempt } from '../db/attempts.ts'
import { insertFailure } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { insertResetTokenOf, selectHasUndoToken, undoEmailChange } from '../db/email-changes.ts'
import { resetTokenLifetime } from '../db/passwords.ts'
import {
  insertSessionBySecondFactor,
  selectChallenged,
  selectSecondFactor,
  updateAuthenticatedByCode,
} from '../db/second-factors.ts'
import {
  challengeLifetime,
  deleteSession,
  deleteSessions,
  endReusedSession,
  insertChallenge,
  insertRegistration,
  insertSession,
  rotateRefreshToken,
  selectCredentials,
  selectIsEmpty,
  type StartedSession,
  type VerifiedPassword,
} from '../db/sessions.ts'
import type { Client } from '../domain/audit.ts'
import { type JsonText, jsonText } from '../contract/json-text.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { Handlers } from '../contract/operation.ts'
import { problems } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly accessTokens: AccessTokens
  readonly passwords: PasswordHasher
  readonly reauthenticateByPassword: ReauthenticateByPassword
  readonly credentials: Credentials
  readonly attemptKeys: AttemptKeys
  readonly secondFactorKeys: KeyRing
  /** Derive each refresh token from the one before it. */
  readonly refreshKeys: KeyRing
  readonly takesFailure: TakesFailure
  /** Whether anybody may register, and not the first user alone. */
  readonly isRegistrationOpen: boolean
}

/** The operations of the contract's tag `auth`, but for those on the signed-in user. */
export const authHandlers = ({
  db,
  accessTokens,
  passwords,
  reauthenticateByPassword,
  credentials,
  attemptKeys,
  secondFactorKeys,
  refreshKeys,
  takesFailure,
  isRegistrationOpen,
}: Deps) =>
  ({
    async register({ body, client }) {
      if (!isRegistrationOpen && !(await selectIsEmpty(db))) throw problems.registrationClosed()
      const { username, email, password, display_name: displayName = username } = body
      const passwordHash = await passwords.hash(password)
      const refresh = newRefreshToken()
      const account = { username, email, displayName, passwordHash }
      const started = await insertRegistration(db, account, isRegistrationOpen, client, refresh.hash)
      if (started === null) throw problems.registrationClosed()
      const headers = { location: `/users/${started.userId}` }
      return { status: 201, headers, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async login({ body, client }) {
      const { email, password } = body
      const attemptKey = attemptKeys.ofSignIn(email, client)
      const { wait, credentials: found } = await selectCredentials(db, email, attemptKey)
      if (wait > 0) throw problems.tooManyAttempts(wait)
      const { valid, rehash } = await passwords.verify(found?.passwordHash ?? null, password)
      if (found === null || !valid) {
        if (takesFailure(client))
          await insertFailure(db, 'sign_in.failed', {
            client,
            principal: null,
            userId: found?.userId ?? null,
          })
        throw problems.wrongPassword()
      }
      const { userId, passwordHash: oldHash } = found
      const newHash = rehash ? await passwords.hash(password) : oldHash
      const verified = { userId, oldHash, newHash, attemptKey }
      if (found.hasSecondFactor) throw await challenge(db, verified, client)
      const refresh = newRefreshToken()
      const started = await insertSession(db, verified, client, refresh.hash)
      if (started === null) throw problems.wrongPassword()
      return { status: 200, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async completeLogin({ body, client }) {
      const challengeHash = hashChallenge(body.challenge)
      const factor = challengeHash && (await selectChallenged(db, challengeHash))
      if (challengeHash === null || factor === null) throw problems.wrongSecondFactor()
      const { userId } = factor
      const attemptKey = attemptKeys.ofSecondFactor(userId)
      const wait = await insertAttempt(db, attemptKey)
      if (wait > 0) throw problems.tooManyAttempts(wait)
      const code = readCode(secondFactorKeys, factor, body.code)
      const refresh = newRefreshToken()
      const proof = code && { challengeHash, code, attemptKey }
      const started = proof && (await insertSessionBySecondFactor(db, userId, proof, client, refresh.hash))
      if (started === null) {
        await insertFailure(db, 'sign_in.failed', { client, principal: null, userId })
        throw problems.wrongSecondFactor()
      }
      return { status: 200, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async refreshToken({ body, client }) {
      const shownHash = hashRefreshToken(body.refresh_token)
      if (shownHash === null) throw problems.invalidRefreshToken()
      const successors = refreshKeys.all.map((key) => nextRefreshToken(key, body.refresh_token))
      const nextHashes = successors.map(({ hash }) => hash)
      const started = await rotateRefreshToken(db, shownHash, nextHashes, client)
      if (started === null) {
        const endedSessionId = await endReusedSession(db, shownHash, client)
        if (endedSessionId !== null) await credentials.forgetSession(endedSessionId)
        throw problems.invalidRefreshToken()
      }
      // The secret that the refresh token was derived from signs the access token too: a repeat then gets the same pair,
      // also from an instance whose active secret is another.
      const keyIndex = nextHashes.findIndex((hash) => hash.equals(started.tokenHash))
      const refresh = successors[keyIndex]
      if (refresh === undefined) throw new Error('The current refresh token is one of the successors')
      return { status: 200, body: tokensOf(accessTokens, started, refresh.token, keyIndex) }
    },

    async logout({ principal, query, client }) {
      const { userId, credential } = principal
      if (query?.everywhere === true) {
        await deleteSessions(db, principal, client)
        await credentials.forgetUser(userId)
      } else {
        await deleteSession(db, principal, client, credential.sessionId)
        await credentials.forgetSession(credential.sessionId)
      }
      return { status: 204 }
    },

    async reauthenticate({ body, principal, client }) {
      const { password, code = '' } = body
      if (password === undefined) {
        const factor = await selectSecondFactor(db, principal)
        if (factor === null || !factor.isConfirmed) throw problems.secondFactorNotEnrolled()
        const attemptKey = attemptKeys.ofSecondFactor(principal.userId)
        const wait = await insertAttempt(db, attemptKey)
        if (wait > 0) throw problems.tooManyAttempts(wait)
        const read = readCode(secondFactorKeys, factor, code)
        const isRenewed =
          read && (await updateAuthenticatedByCode(db, principal, client, { code: read, attemptKey }))
        if (isRenewed !== true) {
          await insertFailure(db, 'proof.failed', { client, principal, userId: principal.userId })
          throw problems.wrongCode()
        }
      } else {
        await reauthenticateByPassword(principal, client, password, '/password')
      }
      return { status: 204 }
    },

    async undoEmailChange({ body, client }) {
      const tokenHash = hashUndoToken(body.token)
      if (tokenHash === null || !(await selectHasUndoToken(db, tokenHash))) throw problems.invalidUndoToken()
      const undone = await undoEmailChange(db, client, tokenHash, passwords.unmatchable)
      if (undone === null) throw problems.invalidUndoToken()
      await credentials.forgetUser(undone.userId)
      const { token, hash } = newResetToken()
      const isStored = await insertResetTokenOf(db, undone.userId, hash)
      if (!isStored) throw problems.invalidUndoToken()
      return {
        status: 200,
        body: { email: undone.email, reset_token: token, reset_token_expires_in: resetTokenLifetime },
      }
    },
  }) satisfies Partial<Handlers>

/** Stores a challenge for the second factor, and answers with the problem that asks for it. */
const challenge = async (db: Database, verified: VerifiedPassword, client: Client): Promise<Error> => {
  const { token, hash } = newChallenge()
  return (await insertChallenge(db, verified, client, hash))
    ? problems.secondFactorRequired(token, challengeLifetime)
    : problems.wrongPassword()
}

const tokensOf = (
  accessTokens: AccessTokens,
  { userId, sessionId, userJson, refreshExpiresIn, issuedAt }: StartedSession,
  refreshToken: string,
  keyIndex = 0,
): JsonText<components['schemas']['AuthTokens']> => {
  const tokenId = sha256(`jti ${refreshToken}`).toString('base64url')
  const age = Math.floor((Date.now() - issuedAt) / 1_000)
  const tokens = {
    access_token: accessTokens.issue({ userId, sessionId }, { issuedAt, tokenId, keyIndex }),
    token_type: 'Bearer',
    expires_in: Math.min(Math.max(accessTokenLifetime - age, 0), accessTokenLifetime),
    refresh_token: refreshToken,
    refresh_expires_in: refreshExpiresIn,
  }
  return jsonText(`${JSON.stringify(tokens).slice(0, -1)},"user":${userJson}}`)
}
