import { LRUCache } from 'lru-cache'
import type { Database } from '../db/client.ts'
import { selectSessionRole } from '../db/sessions.ts'
import type { Role } from '../domain/permissions.ts'

/**
 * Which sessions are live, and with which role. Another instance's change is seen when an entry expires; a change in
 * this process is told to it and takes effect at once.
 */
export interface Sessions {
  /** The role of the session's user; null when the session has ended. */
  roleOf(sessionId: string, userId: string): Promise<Role | null>
  /** To be called when a session has ended. */
  forgetSession(sessionId: string): void
  /** To be called when a user was changed or deleted. */
  forgetUser(userId: string): void
}

interface Entry {
  readonly userId: string
  readonly role: Role
}

/** Milliseconds for which a session is believed to be as it was. */
const lifetime = 5_000

/** A cache of live sessions in front of the database. */
export const cacheSessions = (db: Database): Sessions => {
  const entries = new LRUCache<string, Entry>({ max: 20_000, ttl: lifetime })
  // What was read before a change may not be kept after it.
  let changes = 0

  return {
    async roleOf(sessionId, userId) {
      const known = entries.get(sessionId)
      if (known !== undefined) return known.userId === userId ? known.role : null
      const changesBefore = changes
      const role = await selectSessionRole(db, sessionId, userId)
      if (role !== null && changes === changesBefore) entries.set(sessionId, { userId, role })
      return role
    },
    forgetSession(sessionId) {
      changes += 1
      entries.delete(sessionId)
    },
    forgetUser(userId) {
      changes += 1
      for (const [sessionId, entry] of entries) if (entry.userId === userId) entries.delete(sessionId)
    },
  }
}
