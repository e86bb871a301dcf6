import { recordAudit } from '../../db/activity/audit.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { insertProviderSession } from '../../db/accounts/identities.ts'
import type { ProvenBy } from '../../db/accounts/one-time-tokens.ts'
import { insertRefreshToken } from '../../db/accounts/refresh-tokens.ts'
import { insertSession } from '../../db/accounts/sessions.ts'
import type { AuditAction } from '../../domain/activity/audit.ts'

interface SessionStart {
  readonly userId: string
  readonly tokenHash: Buffer
  readonly action?: AuditAction
  /** What an identity provider has proven; null if the service has. */
  readonly identity?:
    | (ProvenBy & {
        readonly hours: number
        /** In seconds since the epoch. Now if the service has asked for a second factor. */
        readonly authenticatedAt?: number
      })
    | null
}

/** Starts a session of a user who has proven who they are, with its first refresh token. */
export const startSession = async (
  tx: TransactionContext,
  { userId, tokenHash, action = 'sign_in.succeeded', identity = null }: SessionStart,
): Promise<void> => {
  const sessionId = newId()
  const { hours = null, authenticatedAt = null } = identity ?? {}
  await pipeline(tx.db, {
    session: () => insertSession(tx, { id: sessionId, userId, hours, authenticatedAt }),
    refreshToken: () => insertRefreshToken(tx, { hash: tokenHash, sessionId }),
    providerSession: () =>
      identity && insertProviderSession(tx, { sessionId, identityId: identity.id, sid: identity.sid }),
    audit: () => recordAudit(tx, action, { userId, actorId: userId, sessionId }),
  })
}
