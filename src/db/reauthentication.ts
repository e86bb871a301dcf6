import type { Client } from '../domain/audit.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { attemptParameter, clearAttempts } from './attempts.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import type { CallerPlaceholders } from './access/permissions.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

/** How long a session counts as recently authenticated after it proved a password or a second factor. */
const recent = sql.raw(`interval '15 minutes'`)

/**
 * A condition that holds when the caller's session has authenticated recently, or when the caller shows an API token, which
 * has nothing to prove: what it may do is decided by its scopes and permissions alone.
 */
export const isRecentlyAuthenticated = (
  p: CallerPlaceholders & Pick<Placeholders<typeof auditParameters>, 'audit_session'>,
): SQL => sql`(not ${p.in_session} or exists (
  select from sessions where id = ${p.audit_session} and authenticated_at > now() - ${recent}))`

/** Parts of a statement that renew the session of the row `person`: `renewed` has its id and its user's. */
export const renewSession = (
  p: Placeholders<{ current_session: 'uuid' } & typeof auditParameters>,
): SQL => sql`
  renewed as (
    update sessions set authenticated_at = now() from person
    where sessions.id = ${p.current_session} and sessions.user_id = person.id
    returning sessions.id, sessions.user_id
  ), audit as (${audit(
    p,
    sql`${auditEvent(p, 'session.reauthenticated', { user: sql`user_id`, session: sql`id` })} from renewed`,
  )})`

const renewByPassword = statement(
  { caller: 'uuid', current_session: 'uuid', old_hash: 'text', ...attemptParameter, ...auditParameters },
  { id: 'text', ...auditColumns },
  (p) => sql`
    with person as (
      select id from users where id = ${p.caller} and password_hash = ${p.old_hash}
    ), cleared as (
      ${clearAttempts(p, sql`person`)}
    ), ${renewSession(p)}
    select id::text, ${auditColumn} from renewed`,
)

/** Notes that the principal's session proved the password that was verified against `oldHash`. False when it has changed. */
export const updateAuthenticatedByPassword = async (
  db: Database,
  principal: SessionPrincipal,
  client: Client,
  { oldHash, attemptKey }: { oldHash: string; attemptKey: Buffer },
): Promise<boolean> => {
  const who = { caller: principal.userId, current_session: principal.credential.sessionId }
  const proof = { old_hash: oldHash, attempt_key: attemptKey }
  return onlyRow(await renewByPassword(db, { ...who, ...proof, ...auditValues(client, principal) })) !== null
}
