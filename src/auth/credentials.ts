import { LRUCache } from 'lru-cache'
import { withTimeout } from '../concurrency/deadline.ts'
import { selectApiTokenPrincipal, type UsedApiToken } from '../db/accounts/api-tokens.ts'
import {
  type CredentialChange,
  listenForCredentialChanges,
  notifyCredentialChange,
} from '../db/accounts/credential-changes.ts'
import type { Database } from '../db/engine/client.ts'
import { selectSessionPrincipal } from '../db/accounts/sessions.ts'
import type { BearerPrincipal } from '../domain/shared/permissions.ts'

/**
 * Live sessions and API tokens. A change takes effect in this process when `forget…` is called, and in other workers and
 * instances when they receive the notification, after 5 seconds at the latest.
 */
export interface Credentials {
  /** Null if the session has ended or belongs to another user. */
  sessionPrincipal(sessionId: string, userId: string): Promise<BearerPrincipal | null>
  /** Null if no token has the hash, or it has expired; `suspended` until a sign-in of its user. */
  apiTokenPrincipal(hash: Buffer): Promise<BearerPrincipal | 'suspended' | null>
  /** Null if the token was revoked or has expired, or rests. */
  apiTokenPrincipalById(tokenId: string): Promise<BearerPrincipal | null>
  /** Call after a session has ended. */
  forgetSession(sessionId: string): Promise<void>
  /** Call after an API token was revoked. */
  forgetApiToken(tokenId: string): Promise<void>
  /** Call after a user was changed or deleted, or several of their sessions have ended. */
  forgetUser(userId: string): Promise<void>
  /**
   * Calls `listener` after each of these changes, in this process or another; with null when changes of other processes may
   * have been missed or were not understood.
   */
  onChange(listener: (change: CredentialChange | null) => void): void
}

/** Milliseconds. How long a revoked credential can work in a process that missed the notification. */
const cacheTtl = 5_000

const maxEntries = 20_000

interface CacheOptions {
  /** Waits until the schema is up to date. */
  readonly background: Database
  readonly log: { warn(message: string): void }
}

/** A cache of live credentials in front of the database. */
export const cacheCredentials = (db: Database, { background, log }: CacheOptions): Credentials => {
  const sessions = new LRUCache<string, BearerPrincipal>({ max: maxEntries, ttl: cacheTtl })
  /** By hash or by id. */
  const apiTokens = new LRUCache<string, BearerPrincipal>({ max: maxEntries, ttl: cacheTtl })
  // A lookup that began before a change must not fill the cache after it.
  let changes = 0
  const listeners: ((change: CredentialChange | null) => void)[] = []

  const removeWhere = (
    cache: LRUCache<string, BearerPrincipal>,
    matches: (principal: BearerPrincipal) => boolean,
  ): void => {
    for (const [key, principal] of cache) if (matches(principal)) cache.delete(key)
  }

  /** Null: anything may have changed. */
  const invalidate = (change: CredentialChange | null): void => {
    changes += 1
    if (change === null) {
      sessions.clear()
      apiTokens.clear()
    } else removeFromCache(change)
    for (const listener of listeners) listener(change)
  }

  const removeFromCache = (change: CredentialChange): void => {
    switch (change.kind) {
      case 'session':
        sessions.delete(change.sessionId)
        return
      case 'api_token':
        removeWhere(
          apiTokens,
          ({ credential }) => credential.kind === 'api_token' && credential.tokenId === change.tokenId,
        )
        return
      case 'user':
        for (const cache of [sessions, apiTokens])
          removeWhere(cache, ({ userId }) => userId === change.userId)
    }
  }

  const forget = async (change: CredentialChange): Promise<void> => {
    invalidate(change)
    // If this fails, other processes use their cached entries until these expire.
    const late = (): Error => new Error('The notification took too long')
    await withTimeout(cacheTtl, notifyCredentialChange(db, change), late).catch(() => undefined)
  }

  const cachedApiToken = async (
    key: string,
    select: () => Promise<UsedApiToken | null>,
  ): Promise<BearerPrincipal | 'suspended' | null> => {
    const cached = apiTokens.get(key)
    if (cached !== undefined) return cached
    const changesBefore = changes
    const used = await select()
    if (used === null) return null
    if (used.isSuspended) return 'suspended'
    const ttl = Math.min(cacheTtl, used.expiresIn)
    if (changes === changesBefore && ttl > 0) apiTokens.set(key, used.principal, { ttl })
    return used.principal
  }

  listenForCredentialChanges(background, {
    onChange: invalidate,
    onListening: () => invalidate(null),
    onSilence: () =>
      log.warn(
        'The database delivers no notifications, as behind a pooler by transaction: what other processes revoke works here for up to 5 seconds',
      ),
  })

  return {
    async sessionPrincipal(sessionId, userId) {
      const cached = sessions.get(sessionId)
      if (cached !== undefined) return cached.userId === userId ? cached : null
      const changesBefore = changes
      const principal = await selectSessionPrincipal(db, sessionId, userId)
      if (principal !== null && changes === changesBefore) sessions.set(sessionId, principal)
      return principal
    },
    apiTokenPrincipal: (hash) =>
      cachedApiToken(hash.toString('base64url'), () => selectApiTokenPrincipal(db, { hash })),
    async apiTokenPrincipalById(id) {
      const principal = await cachedApiToken(id, () => selectApiTokenPrincipal(db, { id }))
      return principal === 'suspended' ? null : principal
    },
    forgetSession: (sessionId) => forget({ kind: 'session', sessionId }),
    forgetApiToken: (tokenId) => forget({ kind: 'api_token', tokenId }),
    forgetUser: (userId) => forget({ kind: 'user', userId }),
    onChange: (listener) => void listeners.push(listener),
  }
}
