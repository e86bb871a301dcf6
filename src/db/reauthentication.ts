import type { SessionPrincipal } from '../domain/permissions.ts'
import { attemptParameter, clearAttempts } from './attempts.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { type SecondFactorCode, codeParameters, codeValues, consumeCode } from './second-factors.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'

/** Time for which a session counts as recently authenticated after proving a password or a second factor. */
const recent = sql.raw(`interval '15 minutes'`)

/** Whether a session with this time of its authentication counts as recently authenticated. */
export const isRecent = (authenticatedAt: SQLWrapper): SQL =>
  sql`${authenticatedAt} between now() - ${recent} and now() + ${recent}`

/**
 * A statement that renews the authentication of the caller's session. `proof` are its first parts: `person` has the id of
 * the user who has proven their identity.
 */
const renewal = (p: ContextPlaceholders & Placeholders<typeof attemptParameter>, proof: SQL): SQL => sql`
  with ${proof}, cleared as (
    ${clearAttempts(p, sql`person`)}
  ), renewed as (
    update sessions set ${assignments<'sessions'>({ authenticated_at: sql`now()` })} from person
    where sessions.id = ${p.audit_session} and sessions.user_id = person.id
    returning sessions.id, sessions.user_id
  ), audit as (${audit(
    p,
    sql`${auditEvent(p, 'session.reauthenticated', { user: sql`user_id` })} from renewed`,
  )})
  select ${columnsOf<'sessions'>(sql`renewed`).id}::text, ${auditColumn} from renewed`

const renewByPassword = query(
  'sessions.renew_by_password',
  { old_hash: 'text', ...attemptParameter },
  { id: 'text' },
  (p) =>
    renewal(
      p,
      sql`person as (select id from users where id = ${p.caller} and password_hash = ${p.old_hash})`,
    ),
)

/** Renews the caller's session by the password that was verified against `oldHash`. False when it has changed. */
export const updateAuthenticatedByPassword = async (
  ctx: OpContext<SessionPrincipal>,
  { oldHash, attemptKey }: { readonly oldHash: string; readonly attemptKey: Buffer },
): Promise<boolean> => {
  const rows = await renewByPassword(ctx, { old_hash: oldHash, attempt_key: attemptKey })
  return rows.length > 0
}

const renewByCode = query(
  'sessions.renew_by_code',
  { ...codeParameters, ...attemptParameter },
  { id: 'text' },
  (p) => renewal(p, sql`${consumeCode(p, p.caller)}, person as (select id from proven)`),
)

/** Uses a code and renews the caller's session. False when the code is no longer valid. */
export const updateAuthenticatedByCode = async (
  ctx: OpContext<SessionPrincipal>,
  { code, attemptKey }: { readonly code: SecondFactorCode; readonly attemptKey: Buffer },
): Promise<boolean> => {
  const rows = await renewByCode(ctx, { ...codeValues(code), attempt_key: attemptKey })
  return rows.length > 0
}
