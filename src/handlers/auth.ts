import type { components } from '../../generated/openapi.ts'
import { type AccessTokens, accessTokenLifetime } from '../auth/access-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import { hashRefreshToken, newRefreshToken } from '../auth/refresh-tokens.ts'
import type { Sessions } from '../auth/sessions.ts'
import type { Database } from '../db/client.ts'
import {
  deleteSession,
  insertRegistration,
  insertSession,
  rotateRefreshToken,
  selectCredentials,
  selectIsEmpty,
  type StartedSession,
} from '../db/sessions.ts'
import { type JsonText, jsonText } from '../domain/json-text.ts'
import type { Handlers } from '../operation.ts'
import { problems } from '../problems.ts'

interface Deps {
  readonly db: Database
  readonly accessTokens: AccessTokens
  readonly passwords: PasswordHasher
  readonly sessions: Sessions
  /** Whether anybody may register, and not the first user alone. */
  readonly isRegistrationOpen: boolean
}

/** The operations of the contract's tag `auth`. */
export const authHandlers = ({ db, accessTokens, passwords, sessions, isRegistrationOpen }: Deps) =>
  ({
    async register({ body }) {
      if (!isRegistrationOpen && !(await selectIsEmpty(db))) throw problems.registrationClosed()
      const { username, email, password, display_name: displayName = username } = body
      const passwordHash = await passwords.hash(password)
      const refresh = newRefreshToken()
      const account = { username, email, displayName, passwordHash }
      const started = await insertRegistration(db, account, isRegistrationOpen, refresh.hash)
      if (started === null) throw problems.registrationClosed()
      const headers = { location: `/users/${started.userId}` }
      return { status: 201, headers, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async login({ body }) {
      const credentials = await selectCredentials(db, body.email)
      const { valid, rehash } = await passwords.verify(credentials?.password_hash ?? null, body.password)
      if (credentials === null || !valid) throw problems.wrongPassword()
      const oldHash = credentials.password_hash
      const newHash = rehash ? await passwords.hash(body.password) : oldHash
      const refresh = newRefreshToken()
      const started = await insertSession(db, credentials.id, { oldHash, newHash }, refresh.hash)
      if (started === null) throw problems.wrongPassword()
      return { status: 200, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async refreshToken({ body }) {
      const shown = hashRefreshToken(body.refresh_token)
      if (shown === null) throw problems.invalidRefreshToken()
      const refresh = newRefreshToken()
      const { started, endedSessionId } = await rotateRefreshToken(db, shown, refresh.hash)
      if (endedSessionId !== null) sessions.forgetSession(endedSessionId)
      if (started === null) throw problems.invalidRefreshToken()
      return { status: 200, body: tokensOf(accessTokens, started, refresh.token) }
    },

    async logout({ principal }) {
      await deleteSession(db, principal.sessionId)
      sessions.forgetSession(principal.sessionId)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const tokensOf = (
  accessTokens: AccessTokens,
  { userId, sessionId, userJson, refreshExpiresIn }: StartedSession,
  refreshToken: string,
): JsonText<components['schemas']['AuthTokens']> => {
  const tokens = {
    access_token: accessTokens.issue({ userId, sessionId }),
    token_type: 'Bearer',
    expires_in: accessTokenLifetime,
    refresh_token: refreshToken,
    refresh_expires_in: refreshExpiresIn,
  }
  return jsonText(`${JSON.stringify(tokens).slice(0, -1)},"user":${userJson}}`)
}
