import { accessTokenLifetime, type AccessTokens } from '../../auth/access-tokens.ts'
import { sha256 } from '../../auth/sha256.ts'
import type { StartedSession } from '../../db/accounts/refresh-tokens.ts'

/** The tokens of a session, and the JSON of its user. Lifetimes are in seconds. */
export interface IssuedTokens {
  readonly accessToken: string
  readonly expiresIn: number
  readonly refreshToken: string
  readonly refreshExpiresIn: number
  readonly userId: string
  readonly userJson: string
}

/** A refresh token, and the index among the secrets of the key that signs the access token. */
interface Refresh {
  readonly refreshToken: string
  readonly keyIndex?: number
}

/** Issues the access token for a refresh token. Deterministic: a repeated refresh returns the same access token. */
export const issueTokens = (
  accessTokens: AccessTokens,
  { userId, sessionId, userJson, refreshExpiresIn, issuedAt, age }: StartedSession,
  { refreshToken, keyIndex = 0 }: Refresh,
): IssuedTokens => {
  const tokenId = sha256(`jti ${refreshToken}`).toString('base64url')
  return {
    accessToken: accessTokens.issue({ userId, sessionId }, { issuedAt, tokenId, keyIndex }),
    expiresIn: Math.max(accessTokenLifetime - age, 0),
    refreshToken,
    refreshExpiresIn,
    userId,
    userJson,
  }
}
