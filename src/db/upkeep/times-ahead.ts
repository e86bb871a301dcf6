import { batchOf, countingStatement, untilNone } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { minStepBack } from '../shared/retention.ts'
import { invitationLifetime } from '../projects/invitations.ts'
import { correctDigestTimes } from '../activity/notification-settings.ts'
import { type AnyPgColumn, getTableName, type SQL, sql } from '../schema/drizzle.ts'
import {
  attempts,
  idempotencyKeys,
  invitationMails,
  invitations,
  oneTimeTokens,
  refreshTokens,
  secondFactors,
  sessions,
  uploads,
  webhookDeliveries,
  webhooks,
} from '../schema/tables.ts'
import { idleLifetime, maxLifetime } from '../accounts/sessions.ts'
import { uploadHours } from '../../domain/files/uploads.ts'
import { previousSecretLifetime } from '../activity/webhooks.ts'

/**
 * Times that are further ahead than the service sets them: it set them before the clock was set back. Left as they are, nothing would
 * be sent or expire until the clock has caught up.
 */

const limit = 500
const none = sql.raw(`interval '0'`)

/** Whether a column is later than a transaction that has begun after this one can have set it to. */
const isAhead = (column: AnyPgColumn, longest: SQL): SQL =>
  sql`${column} > now() + ${longest} + ${minStepBack}`

/** Corrects a batch of rows whose column is ahead: by default, sets it to the latest time that it can be set to now. */
const correction = (
  column: AnyPgColumn,
  longest: SQL,
  set: SQL = sql`${sql.identifier(column.name)} = now() + ${longest}`,
) =>
  countingStatement(
    `${getTableName(column.table)}.correct_${column.name}`,
    {},
    () =>
      sql`update ${column.table} set ${set} where ${batchOf(column.table, isAhead(column, longest), limit)} returning 1`,
  )

const corrections = [
  correction(sessions.expires_at, maxLifetime),
  // Nobody knows how long ago an authentication ahead was, so it does not count as recent.
  correction(sessions.authenticated_at, none, sql`authenticated_at = to_timestamp(0)`),
  correction(refreshTokens.expires_at, idleLifetime),
  correction(invitations.expires_at, invitationLifetime),
  correction(uploads.expires_at, sql.raw(`interval '${uploadHours} hours'`)),
  correction(idempotencyKeys.created_at, none),
  correction(invitationMails.created_at, none),
  correction(
    attempts.last_failed_at,
    none,
    sql`last_failed_at = now(), delayed_until = delayed_until - (last_failed_at - now())`,
  ),
  correction(webhookDeliveries.created_at, none, sql`created_at = now(), due_at = least(due_at, now())`),
  correction(webhookDeliveries.attempted_at, none, sql`attempted_at = now(), due_at = least(due_at, now())`),
  correction(webhooks.failing_since, none),
  correction(webhooks.previous_secret_until, previousSecretLifetime),
]

/**
 * Moves the tokens that are ahead back by the same time, so that they keep their order and lifetimes: undoing a change of an email address
 * undoes the later ones. There are few tokens.
 */
const moveOneTimeTokens = countingStatement('one_time_tokens.move_back', {}, () => {
  const ahead = sql`(select max(${oneTimeTokens.created_at}) - now() from one_time_tokens)`
  return builder
    .update(oneTimeTokens)
    .set({
      created_at: sql`${oneTimeTokens.created_at} - ${ahead}`,
      expires_at: sql`${oneTimeTokens.expires_at} - ${ahead}`,
    })
    .where(isAhead(oneTimeTokens.created_at, none))
    .returning({ hash: oneTimeTokens.hash })
})

/** Accepts the codes of an authenticator again that was used while the clock was ahead. A step has 30 seconds. */
const moveSteps = countingStatement('second_factors.move_back', {}, () => {
  const present = sql`floor(extract(epoch from now()) / 30)::bigint`
  return builder
    .update(secondFactors)
    .set({ last_step: present })
    .where(sql`${secondFactors.last_step} > ${present} + 2`)
    .returning({ user_id: secondFactors.user_id })
})

// A turn of a sender is shorter than the shortened lease, so that no other sends the same deliveries.
const shortenLeases = countingStatement('webhooks.shorten_leases', { lease: 'int' }, (p) => {
  const longest = sql`${p.lease} * interval '1 millisecond'`
  return builder
    .update(webhooks)
    .set({ leased_until: sql`now() + ${longest}` })
    .where(isAhead(webhooks.leased_until, longest))
    .returning({ id: webhooks.id })
})

/** Lets the senders look at every webhook: they set its due time again. */
const wakeWebhooks = builtStatement('webhooks.wake', {}, (db) =>
  db
    .update(webhooks)
    .set({ due_at: sql`now()` })
    .where(sql`${webhooks.due_at} > now()`),
)

/** Corrects times that are further ahead than the service sets them. Returns their number. `webhookLease` is in milliseconds. */
export const correctTimesAhead = async (
  db: Database,
  { webhookLease }: { readonly webhookLease: number },
  stop: AbortSignal,
): Promise<number> => {
  let corrected =
    (await moveOneTimeTokens(db, {})) +
    (await moveSteps(db, {})) +
    (await shortenLeases(db, { lease: webhookLease }))
  for (const correctBatch of corrections) corrected += await untilNone(() => correctBatch(db, {}), stop)
  await wakeWebhooks(db, {})
  await correctDigestTimes(db, {})
  return corrected
}
