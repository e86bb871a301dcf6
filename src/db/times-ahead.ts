import { batchOf, countingStatement, untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { invitationLifetime } from './invitations.ts'
import { assignments, columnsOf, type ColumnName, type TableName } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { idleLifetime, maxLifetime } from './sessions.ts'
import { statement, type StatementName } from './engine/statement.ts'
import { uploadHours } from '../domain/uploads.ts'

/**
 * Times that are further ahead than the service sets them: it set them before the clock was set back. Left as they are, nothing would
 * be sent or expire until the clock has caught up.
 */

const limit = 500

/** Sets a column to the latest time that it can be set to now, where it is later. The column needs an index. */
const shorten = <T extends TableName>(name: StatementName, table: T, column: ColumnName<T>, longest: SQL) => {
  const latest = sql`now() + ${longest}`
  const time = columnsOf<T>(sql.raw(table))[column]
  return countingStatement(
    name,
    {},
    () => sql`
      update ${sql.raw(table)} set ${sql.raw(column)} = ${latest}
      where ${batchOf(table, sql`${time} > ${latest}`, limit)} returning 1`,
  )
}

const none = sql.raw(`interval '0'`)

const shortenings = [
  shorten('sessions.shorten', 'sessions', 'expires_at', maxLifetime),
  shorten('refresh_tokens.shorten', 'refresh_tokens', 'expires_at', idleLifetime),
  shorten('invitations.shorten', 'invitations', 'expires_at', invitationLifetime),
  shorten('uploads.shorten', 'uploads', 'expires_at', sql.raw(`interval '${uploadHours} hours'`)),
  shorten('idempotency_keys.shorten', 'idempotency_keys', 'created_at', none),
  shorten('invitation_mails.shorten', 'invitation_mails', 'created_at', none),
  shorten('attempts.shorten', 'attempts', 'last_failed_at', none),
]

const webhook = columnsOf<'webhooks'>(sql.raw('webhook'))
const delivery = columnsOf<'webhook_deliveries'>(sql.raw('delivery'))

/** The longest delay between two attempts: `maxDelay` in domain/webhook-retries.ts. */
const maxRetryDelay = sql.raw(`interval '6 hours'`)

// A delivery is due when it is made, and its next attempt is after the last one.
const isAhead = sql`${delivery.due_at} > now()
  and (${delivery.attempts} = 0 or ${delivery.attempted_at} > now() or ${delivery.due_at} > now() + ${maxRetryDelay})`

const makeDeliveriesDue = statement(
  'webhook_deliveries.make_due',
  {},
  { made_due: 'int8' },
  () => sql`
    with ahead as materialized (
      select ${delivery.id}, ${delivery.webhook_id} from webhooks webhook cross join lateral (
        select * from webhook_deliveries delivery
        where ${delivery.webhook_id} = ${webhook.id} and ${delivery.status} = 'pending' and ${isAhead} limit ${sql.raw(String(limit))}
      ) delivery where ${webhook.due_at} > now() limit ${sql.raw(String(limit))}
    ), advanced as (
      update webhooks webhook set ${assignments<'webhooks'>({ due_at: sql`now()` })}
      where ${webhook.id} in (select webhook_id from ahead)
    ), made_due as (
      update webhook_deliveries delivery set ${assignments<'webhook_deliveries'>({ due_at: sql`now()` })}
      from ahead where ${delivery.id} = ahead.id returning 1
    )
    select count(*) as made_due from made_due`,
)

// A turn of a sender is shorter than the shortened lease, so that no other sends the same deliveries.
const shortenWebhookLeases = statement(
  'webhooks.shorten_leases',
  { lease: 'int' },
  {},
  (p) => sql`
    update webhooks webhook set ${assignments<'webhooks'>({ leased_until: sql`now() + ${p.lease} * interval '1 millisecond'` })}
    where ${webhook.leased_until} > now() + ${p.lease} * interval '1 millisecond'`,
)

/** Corrects times that are further ahead than the service sets them. `webhookLease` is in milliseconds. */
export const correctTimesAhead = async (
  db: Database,
  { webhookLease }: { readonly webhookLease: number },
  stop: AbortSignal,
): Promise<void> => {
  await untilNone(async () => (await makeDeliveriesDue(db, {}))[0]?.made_due ?? 0, stop)
  await shortenWebhookLeases(db, { lease: webhookLease })
  for (const shortenBatch of shortenings) await untilNone(() => shortenBatch(db, {}), stop)
}
