import { batchOf, countingStatement, untilNone } from './engine/batches.ts'
import { builder, builtStatement } from './engine/built-statement.ts'
import type { Database } from './engine/client.ts'
import { minStepBack } from './engine/retention.ts'
import { statement } from './engine/statement.ts'
import { invitationLifetime } from './invitations.ts'
import {
  aliasedTable,
  type AnyPgColumn,
  getTableName,
  or,
  type SQL,
  sql,
  type SQLWrapper,
} from './schema/drizzle.ts'
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
} from './schema/tables.ts'
import { idleLifetime, maxLifetime } from './sessions.ts'
import { uploadHours } from '../domain/uploads.ts'
import { previousSecretLifetime } from './webhooks.ts'

/**
 * Times that are further ahead than the service sets them: it set them before the clock was set back. Left as they are, nothing would
 * be sent or expire until the clock has caught up.
 */

const token = aliasedTable(oneTimeTokens, 'token')
const webhook = aliasedTable(webhooks, 'webhook')
const delivery = aliasedTable(webhookDeliveries, 'delivery')

const limit = 500

/** Whether a column is later than a transaction that has begun after this one can have set it to. */
const isAheadOf = (column: AnyPgColumn, latest: SQL): SQL => sql`${column} > ${latest} + ${minStepBack}`

/** Sets a column that is ahead to the latest time that it can be set to now. The column needs an index. */
const shorten = (column: AnyPgColumn, longest: SQL) => {
  const { table } = column
  const latest = sql`now() + ${longest}`
  return countingStatement(
    `${getTableName(table)}.shorten`,
    {},
    () => sql`
      update ${table} set ${sql.identifier(column.name)} = ${latest}
      where ${batchOf(table, isAheadOf(column, latest), limit)} returning 1`,
  )
}

const none = sql.raw(`interval '0'`)

const shortenings = [
  shorten(sessions.expires_at, maxLifetime),
  shorten(refreshTokens.expires_at, idleLifetime),
  shorten(invitations.expires_at, invitationLifetime),
  shorten(uploads.expires_at, sql.raw(`interval '${uploadHours} hours'`)),
  shorten(idempotencyKeys.created_at, none),
  shorten(invitationMails.created_at, none),
]

/** Moves failed attempts back to now, and with them the end of their delay. */
const moveAttempts = countingStatement('attempts.move_back', {}, () =>
  builder
    .update(attempts)
    .set({
      last_failed_at: sql`now()`,
      delayed_until: sql`${attempts.delayed_until} - (${attempts.last_failed_at} - now())`,
    })
    .where(batchOf(attempts, sql`${attempts.last_failed_at} > now()`, limit))
    .returning({ key: attempts.key }),
)

/**
 * Nobody knows how long ago an authentication ahead was, so it does not count as recent. One that is ahead by less than a step back can be
 * of a transaction that has begun after this one.
 */
const forgetAuthentications = countingStatement('sessions.forget_authentication', {}, () =>
  builder
    .update(sessions)
    .set({ authenticated_at: sql`to_timestamp(0)` })
    .where(batchOf(sessions, sql`${sessions.authenticated_at} > now() + ${minStepBack}`, limit))
    .returning({ id: sessions.id }),
)

/**
 * Moves the tokens of each user that are ahead back to now, in their order: undoing a change of an email address undoes the later ones.
 * Each is as long valid as it was to be. There are few tokens.
 */
const moveOneTimeTokens = builtStatement('one_time_tokens.move_back', {}, (db) =>
  db
    .update(token)
    .set({
      created_at: sql`moved.created_at`,
      expires_at: sql`moved.created_at + (${token.expires_at} - ${token.created_at})`,
    })
    .from(
      sql`(
        select ${token.hash}, now() - (row_number() over (partition by ${token.user_id} order by ${token.created_at} desc) - 1)
          * interval '1 millisecond' as created_at
        from one_time_tokens token where ${token.created_at} > now()
      ) moved`,
    )
    .where(sql`${token.hash} = moved.hash and ${token.created_at} > now()`),
)

/** Accepts the codes of an authenticator again that was used while the clock was ahead. A step has 30 seconds. */
const moveSteps = builtStatement('second_factors.move_back', {}, (db) => {
  const present = sql`floor(extract(epoch from now()) / 30)::bigint`
  return db
    .update(secondFactors)
    .set({ last_step: present })
    .where(sql`${secondFactors.last_step} > ${present} + 2`)
})

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
    ), advanced as ${builder
      .update(webhook)
      .set({ due_at: sql`now()` })
      .where(sql`${webhook.id} in (select webhook_id from ahead)`)},
    made_due as ${builder
      .update(delivery)
      .set({ due_at: sql`now()`, created_at: sql`least(${delivery.created_at}, now())` })
      .from(sql`ahead`)
      .where(sql`${delivery.id} = ahead.id`)
      .returning({ id: delivery.id })}
    select count(*) as made_due from made_due`,
)

/** The time in a column, but no later than `latest`. Null stays null. */
const noLaterThan = (time: SQLWrapper, latest: SQL): SQL =>
  sql`case when ${time} > ${latest} then ${latest} else ${time} end`

// A turn of a sender is shorter than the shortened lease, so that no other sends the same deliveries.
const shortenWebhookTimes = builtStatement('webhooks.shorten', { lease: 'int' }, (db, p) => {
  const latest = {
    leased_until: sql`now() + ${p.lease} * interval '1 millisecond'`,
    failing_since: sql`now()`,
    previous_secret_until: sql`now() + ${previousSecretLifetime}`,
  }
  return db
    .update(webhooks)
    .set({
      leased_until: noLaterThan(webhooks.leased_until, latest.leased_until),
      failing_since: noLaterThan(webhooks.failing_since, latest.failing_since),
      previous_secret_until: noLaterThan(webhooks.previous_secret_until, latest.previous_secret_until),
    })
    .where(
      or(
        isAheadOf(webhooks.leased_until, latest.leased_until),
        isAheadOf(webhooks.failing_since, latest.failing_since),
        isAheadOf(webhooks.previous_secret_until, latest.previous_secret_until),
      ),
    )
})

/** Corrects times that are further ahead than the service sets them. `webhookLease` is in milliseconds. */
export const correctTimesAhead = async (
  db: Database,
  { webhookLease }: { readonly webhookLease: number },
  stop: AbortSignal,
): Promise<void> => {
  await moveOneTimeTokens(db, {})
  await moveSteps(db, {})
  for (const correctBatch of [...shortenings, moveAttempts, forgetAuthentications])
    await untilNone(() => correctBatch(db, {}), stop)
  await shortenWebhookTimes(db, { lease: webhookLease })
  await untilNone(async () => (await makeDeliveriesDue(db, {}))[0]?.made_due ?? 0, stop)
}
