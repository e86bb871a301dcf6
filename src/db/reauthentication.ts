import type { SessionPrincipal } from '../domain/permissions.ts'
import type { OwnAccount } from './accounts.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { ContextPlaceholders, TransactionContext } from './engine/context.ts'
import { eq, type SQL, sql } from './schema/drizzle.ts'
import { sessions } from './schema/tables.ts'

/** Time for which a session counts as recently authenticated after proving a password or a second factor. */
const recent = sql.raw(`interval '15 minutes'`)

/**
 * Whether the caller's session has authenticated recently. True for an API token and for the shell, which cannot reauthenticate:
 * they are restricted by scopes and permissions alone.
 */
export const isRecentlyAuthenticated = (
  p: Pick<ContextPlaceholders, 'in_session' | 'audit_session'>,
): SQL => sql`(not ${p.in_session} or ${p.audit_session} is null or exists (
  select from sessions where id = ${p.audit_session} and authenticated_at between now() - ${recent} and now() + ${recent}))`

const renew = builtStatement('sessions.renew_authentication', { id: 'uuid' }, (db, p) =>
  db
    .update(sessions)
    .set({ authenticated_at: sql`now()` })
    .where(eq(sessions.id, p.id)),
)

/** Makes the caller's session, which lives, one that has just authenticated. */
export const renewAuthentication = async (
  { db, principal }: TransactionContext<SessionPrincipal>,
  _account: OwnAccount,
): Promise<void> => {
  await renew(db, { id: principal.credential.sessionId })
}
