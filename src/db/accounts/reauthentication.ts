import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import type { OwnAccount } from './lock.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { eq, sql } from '../schema/drizzle.ts'
import { sessions } from '../schema/tables.ts'

const renew = builtStatement('sessions.renew_authentication', { id: 'uuid', at: 'int8?' }, (db, p) =>
  db
    .update(sessions)
    // `least` ignores null.
    .set({ authenticated_at: sql`least(now(), to_timestamp(${p.at}))` })
    .where(eq(sessions.id, p.id)),
)

/** Makes the caller's session, which lives, one that has just authenticated, or at a time in seconds since the epoch. */
export const renewAuthentication = async (
  { db, principal }: TransactionContext<SessionPrincipal>,
  _account: OwnAccount,
  at: number | null = null,
): Promise<void> => {
  await renew(db, { id: principal.credential.sessionId, at })
}
