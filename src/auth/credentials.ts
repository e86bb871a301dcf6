import { LRUCache } from 'lru-cache'
import { selectApiTokenPrincipal } from '../db/api-tokens.ts'
import type { Database } from '../db/client.ts'
import { selectSessionRole } from '../db/sessions.ts'
import type { Principal } from '../domain/permissions.ts'

/**
 * Which sessions and API tokens are live, and whose. Another instance's change is seen when an entry expires; a change in
 * this process is told to it and takes effect at once.
 */
export interface Credentials {
  /** Null when the session has ended or is another user's. */
  ofSession(sessionId: string, userId: string): Promise<Principal | null>
  /** By the token's hash; null when there is no such token or it has expired. */
  ofApiToken(hash: Buffer): Promise<Principal | null>
  /** To be called when a session has ended. */
  forgetSession(sessionId: string): void
  /** To be called when an API token was revoked. */
  forgetApiToken(tokenId: string): void
  /** To be called when a user was changed or deleted, or several of their sessions have ended. */
  forgetUser(userId: string): void
}

/** Milliseconds for which a credential is believed to be as it was. */
const lifetime = 5_000

const mostEntries = 20_000

/** A cache of live credentials in front of the database. */
export const cacheCredentials = (db: Database): Credentials => {
  const sessions = new LRUCache<string, Principal>({ max: mostEntries, ttl: lifetime })
  const apiTokens = new LRUCache<string, Principal>({ max: mostEntries, ttl: lifetime })
  // What was read before a change may not be kept after it.
  let changes = 0

  const forget = (cache: LRUCache<string, Principal>, isOver: (principal: Principal) => boolean): void => {
    changes += 1
    for (const [key, principal] of cache) if (isOver(principal)) cache.delete(key)
  }

  return {
    async ofSession(sessionId, userId) {
      const known = sessions.get(sessionId)
      if (known !== undefined) return known.userId === userId ? known : null
      const changesBefore = changes
      const role = await selectSessionRole(db, sessionId, userId)
      if (role === null) return null
      const principal: Principal = { userId, role, credential: { kind: 'session', sessionId } }
      if (changes === changesBefore) sessions.set(sessionId, principal)
      return principal
    },
    async ofApiToken(hash) {
      const key = hash.toString('base64url')
      const known = apiTokens.get(key)
      if (known !== undefined) return known
      const changesBefore = changes
      const used = await selectApiTokenPrincipal(db, hash)
      if (used === null) return null
      const ttl = Math.min(lifetime, used.expiresIn)
      if (changes === changesBefore && ttl > 0) apiTokens.set(key, used.principal, { ttl })
      return used.principal
    },
    forgetSession(sessionId) {
      changes += 1
      sessions.delete(sessionId)
    },
    forgetApiToken(tokenId) {
      forget(apiTokens, ({ credential }) => credential.kind === 'api_token' && credential.tokenId === tokenId)
    },
    forgetUser(userId) {
      forget(sessions, (principal) => principal.userId === userId)
      forget(apiTokens, (principal) => principal.userId === userId)
    },
  }
}
