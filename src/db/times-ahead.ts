import { batchOf, countingStatement, untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { minStepBack } from './engine/retention.ts'
import { statement, type StatementName } from './engine/statement.ts'
import { invitationLifetime } from './invitations.ts'
import { assignments, columnsOf, type ColumnName, type TableName } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { idleLifetime, maxLifetime } from './sessions.ts'
import { uploadHours } from '../domain/uploads.ts'
import { previousSecretLifetime } from './webhooks.ts'

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
]

const ofAttempt = columnsOf<'attempts'>(sql.raw('attempts'))

/** Moves failed attempts back to now, and with them the end of their delay. */
const moveAttempts = countingStatement(
  'attempts.move_back',
  {},
  () => sql`
    update attempts set ${assignments<'attempts'>({
      last_failed_at: sql`now()`,
      delayed_until: sql`${ofAttempt.delayed_until} - (${ofAttempt.last_failed_at} - now())`,
    })}
    where ${batchOf('attempts', sql`${ofAttempt.last_failed_at} > now()`, limit)} returning 1`,
)

const ofSession = columnsOf<'sessions'>(sql.raw('sessions'))

/**
 * Nobody knows how long ago an authentication ahead was, so it does not count as recent. One that is ahead by less than a step back can be
 * of a transaction that has begun after this one.
 */
const forgetAuthentications = countingStatement(
  'sessions.forget_authentication',
  {},
  () => sql`
    update sessions set ${assignments<'sessions'>({ authenticated_at: sql`to_timestamp(0)` })}
    where ${batchOf('sessions', sql`${ofSession.authenticated_at} > now() + ${minStepBack}`, limit)} returning 1`,
)

const ofToken = columnsOf<'one_time_tokens'>(sql.raw('token'))

/**
 * Moves the tokens of each user that are ahead back to now, in their order: undoing a change of an email address undoes the later ones.
 * Each is as long valid as it was to be. There are few tokens.
 */
const moveOneTimeTokens = statement(
  'one_time_tokens.move_back',
  {},
  {},
  () => sql`
    update one_time_tokens token set ${assignments<'one_time_tokens'>({
      created_at: sql`moved.created_at`,
      expires_at: sql`moved.created_at + (${ofToken.expires_at} - ${ofToken.created_at})`,
    })}
    from (
      select ${ofToken.hash}, now() - (row_number() over (partition by ${ofToken.user_id} order by ${ofToken.created_at} desc) - 1)
        * interval '1 millisecond' as created_at
      from one_time_tokens token where ${ofToken.created_at} > now()
    ) moved
    where ${ofToken.hash} = moved.hash and ${ofToken.created_at} > now()`,
)

const ofFactor = columnsOf<'second_factors'>(sql.raw('second_factors'))

/** Accepts the codes of an authenticator again that was used while the clock was ahead. A step has 30 seconds. */
const moveSteps = statement('second_factors.move_back', {}, {}, () => {
  const present = sql`floor(extract(epoch from now()) / 30)::bigint`
  return sql`
    update second_factors set ${assignments<'second_factors'>({ last_step: present })}
    where ${ofFactor.last_step} > ${present} + 2`
})

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
      update webhook_deliveries delivery set ${assignments<'webhook_deliveries'>({
        due_at: sql`now()`,
        created_at: sql`least(${delivery.created_at}, now())`,
      })}
      from ahead where ${delivery.id} = ahead.id returning 1
    )
    select count(*) as made_due from made_due`,
)

/** The time in a column, but no later than `latest`. Null stays null. */
const noLaterThan = (time: SQL, latest: SQL): SQL =>
  sql`case when ${time} > ${latest} then ${latest} else ${time} end`

// A turn of a sender is shorter than the shortened lease, so that no other sends the same deliveries.
const shortenWebhookTimes = statement('webhooks.shorten', { lease: 'int' }, {}, (p) => {
  const latest = {
    leased_until: sql`now() + ${p.lease} * interval '1 millisecond'`,
    failing_since: sql`now()`,
    previous_secret_until: sql`now() + ${previousSecretLifetime}`,
  }
  return sql`
    update webhooks webhook set ${assignments<'webhooks'>({
      leased_until: noLaterThan(webhook.leased_until, latest.leased_until),
      failing_since: noLaterThan(webhook.failing_since, latest.failing_since),
      previous_secret_until: noLaterThan(webhook.previous_secret_until, latest.previous_secret_until),
    })}
    where ${webhook.leased_until} > ${latest.leased_until} or ${webhook.failing_since} > ${latest.failing_since}
      or ${webhook.previous_secret_until} > ${latest.previous_secret_until}`
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
