import { LRUCache } from 'lru-cache'
import { selectApiTokenPrincipal } from '../db/api-tokens.ts'
import type { Database } from '../db/engine/client.ts'
import { selectSessionRole } from '../db/sessions.ts'
import { within } from '../concurrency/deadline.ts'
import type { Principal } from '../domain/permissions.ts'

/**
 * Which sessions and API tokens are live, and whose. Another instance's change is seen when an entry expires; a change in
 * this one is told to all of its processes and has taken effect in them when `forget` resolves.
 */
export interface Credentials {
  /** Null when the session has ended or is another user's. */
  ofSession(sessionId: string, userId: string): Promise<Principal | null>
  /** By the token's hash; null when there is no such token or it has expired. */
  ofApiToken(hash: Buffer): Promise<Principal | null>
  /** To be called when a session has ended. */
  forgetSession(sessionId: string): Promise<void>
  /** To be called when an API token was revoked. */
  forgetApiToken(tokenId: string): Promise<void>
  /** To be called when a user was changed or deleted, or several of their sessions have ended. */
  forgetUser(userId: string): Promise<void>
}

/** Whose credentials are to be looked up again. */
export type Changed =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'api_token'; readonly tokenId: string }
  | { readonly kind: 'user'; readonly userId: string }

/** The other processes of this instance, which have caches too. */
export interface OtherCaches {
  /** Resolves when all of them have forgotten. */
  forget(changed: Changed): Promise<unknown>
  /** Has what they tell this process done. */
  onForget(forget: (changed: Changed) => void): void
}

/** A process that is alone. */
const noOtherCaches: OtherCaches = { forget: async () => undefined, onForget: () => undefined }

/** Milliseconds for which a credential is believed to be as it was. */
const lifetime = 5_000

const mostEntries = 20_000

/** A cache of live credentials in front of the database. */
export const cacheCredentials = (db: Database, others: OtherCaches = noOtherCaches): Credentials => {
  const sessions = new LRUCache<string, Principal>({ max: mostEntries, ttl: lifetime })
  const apiTokens = new LRUCache<string, Principal>({ max: mostEntries, ttl: lifetime })
  // What was read before a change may not be kept after it.
  let changes = 0

  const removeWhere = (
    cache: LRUCache<string, Principal>,
    isOver: (principal: Principal) => boolean,
  ): void => {
    for (const [key, principal] of cache) if (isOver(principal)) cache.delete(key)
  }

  const forgetHere = (changed: Changed): void => {
    changes += 1
    switch (changed.kind) {
      case 'session':
        sessions.delete(changed.sessionId)
        return
      case 'api_token':
        removeWhere(
          apiTokens,
          ({ credential }) => credential.kind === 'api_token' && credential.tokenId === changed.tokenId,
        )
        return
      case 'user':
        for (const cache of [sessions, apiTokens])
          removeWhere(cache, ({ userId }) => userId === changed.userId)
    }
  }

  const forget = async (changed: Changed): Promise<void> => {
    forgetHere(changed)
    // Whoever has not answered by then has no entry left that is older than the change.
    await within(lifetime, others.forget(changed), () => new Error('late')).catch(() => undefined)
  }

  others.onForget(forgetHere)

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
    forgetSession: (sessionId) => forget({ kind: 'session', sessionId }),
    forgetApiToken: (tokenId) => forget({ kind: 'api_token', tokenId }),
    forgetUser: (userId) => forget({ kind: 'user', userId }),
  }
}
