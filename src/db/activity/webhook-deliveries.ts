import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { isWebhookQueue, type PerQueue, type WebhookQueue } from '../../domain/activity/webhook-queues.ts'
import { onlyBranch } from '../access/branches.ts'
import {
  allowsEvent,
  allowsProject,
  allowsWebhook,
  type CallerPlaceholders,
  usersOfEvent,
} from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import type { Database } from '../engine/client.ts'
import { conditionsOf, filterOneOf, searched } from '../statements/conditions.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { instantText } from '../statements/instant-text.ts'
import { parameter, type Placeholders, type ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPageOf, visibilityCheck } from '../lists/list.ts'
import { eventReader } from './event-readers.ts'
import { isSent, matchesEventTypes } from './events.ts'
import { eventJson, webhookDeliveryJson } from '../shared/read-models.ts'
import { passedSince, retentionTime } from '../shared/retention.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, and, eq, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { events, projects, users, webhookDeliveries, webhooks } from '../schema/tables.ts'
import type { ChangeableWebhook } from './webhooks.ts'

/**
 * Deliveries of webhooks. An event reader makes them, once per event: the statement that makes them also moves the reader. Processes
 * then lease webhooks with due deliveries, so a webhook has one request at a time. When a process dies, its leases expire, and
 * requests whose result it had not stored are repeated.
 */

const busy = aliasedTable(webhooks, 'busy')
const ranked = aliasedTable(webhooks, 'ranked')
const ordered = aliasedTable(webhooks, 'ordered')
const item = aliasedTable(webhookDeliveries, 'item')
const webhook = aliasedTable(webhooks, 'webhook')
const delivery = aliasedTable(webhookDeliveries, 'delivery')
const event = aliasedTable(events, 'event')
const owner = aliasedTable(users, 'owner')

/** Whether the row `webhook` gets deliveries. */
export const isActive = sql`${webhook.is_enabled} and ${webhook.deleted_at} is null`

/**
 * Whether the row `webhook` of the row `owner` may deliver the row `event`. With a project, the event must be in it, and the owner must
 * manage it; without one, the owner must see the event even without the administrator role.
 */
const mayDeliver = (): SQL => {
  const isOfProject = sql`${webhook.project_id} is not null`
  const caller = {
    caller: sql`${webhook.owner_id}`,
    is_admin: sql`(${isOfProject} and ${owner.role} = 'admin')`,
    in_session: sql`false`,
  }
  return sql`(${owner.deleted_at} is null and not ${owner.is_disabled} and ${allowsEvent('event.see', caller, event)}
    and (${webhook.project_id} is null or (${webhook.project_id} = ${event.project_id} and ${event.recipient_id} is null and exists (
      select from projects where ${projects.id} = ${webhook.project_id}
        and ${allowsProject('project.manage', caller, projects)}))))`
}

/**
 * When a webhook is due to which deliveries are added. May be too early, but never too late. The row is locked, which serializes it with
 * `reschedule_webhooks`.
 */
const dueAfterAdding = (dueBefore: SQLWrapper): SQL => sql`least(${dueBefore}, now())`

/**
 * When an added delivery is due, and from when it is in the list. Not now(): of two transactions, the one that began first may add its
 * deliveries second, after those with lower sequences.
 */
const whenAdded = sql`clock_timestamp()`

/** The deliveries of the events `batch`. Viewers are selected before webhooks, so that access is not checked for every webhook. */
const newDeliveries = (): SQL => {
  // OFFSET keeps the planner from reading all webhooks. A webhook from the future is from before the clock was set back. Not now():
  // the statement also reads webhooks that are created after it has arrived and before it begins to read.
  const matched = (events: SQL, isOfEvent: SQL): SQL => sql`
    select ${webhook.id} as webhook_id, ${event.id} as event_id, ${event.type} as event_type, ${event.changed_in},
      ${event.ordinal}
    from ${events} event cross join lateral (select * from webhooks webhook where ${isOfEvent} offset 0) webhook
      join users owner on ${owner.id} = ${webhook.owner_id}
    where ${isActive} and (${webhook.created_at} <= ${event.created_at} or ${webhook.created_at} > clock_timestamp())
      and ${matchesEventTypes(event.type, webhook.event_types)} and ${mayDeliver()}`
  return sql`
    sent as materialized (
      select * from batch event where ${isSent(event)}
    ), candidates as materialized (
      select event.*, candidate.user_id as candidate_id from sent event cross join lateral (${usersOfEvent(event)}) candidate
    ), matched as materialized (
      ${matched(sql`candidates`, sql`${webhook.owner_id} = ${event}.candidate_id and ${webhook.project_id} is null`)}
      union all
      ${matched(sql`sent`, sql`${webhook.project_id} = ${event.project_id}`)}
    ), counted as ${builder
      .update(webhook)
      .set({
        last_sequence: sql`${webhook.last_sequence} + added.deliveries`,
        due_at: dueAfterAdding(webhook.due_at),
      })
      .from(sql`(select webhook_id, count(*) as deliveries from matched group by webhook_id) added`)
      .where(sql`${webhook.id} = added.webhook_id`)
      .returning({
        id: webhook.id,
        before: sql`${webhook.last_sequence} - added.deliveries`.as('before'),
      })}, added as (
      insert into webhook_deliveries (
        id, webhook_id, sequence, event_id, event_type, event_changed_in, event_ordinal, due_at, created_at)
      select event_id(clock_timestamp(), sequence), counted.id, sequence, matched.event_id, matched.event_type, matched.changed_in,
        matched.ordinal, ${whenAdded}, ${whenAdded}
      from (
        select matched.*, row_number() over (partition by webhook_id order by changed_in, ordinal) as place from matched
      ) matched join counted on counted.id = matched.webhook_id
        cross join lateral (select before + place as sequence) numbered
      order by counted.id, sequence
    )`
}

/**
 * Makes deliveries of all new events. Events before the first call are not delivered. If several processes call it, one reads and the
 * others return.
 */
export const makeNewDeliveries = eventReader({
  name: 'webhook_deliveries.make',
  reader: 'webhooks',
  limit: 100,
  isOfInterest: sql`(${isSent(event)} and exists (select from webhooks webhook where ${isActive}))`,
  make: newDeliveries(),
})

/**
 * Maximum number of webhooks of one user in one queue that all processes together claim at a time. Webhooks that move to `slow` while
 * a request runs can exceed it, but hold no slots.
 */
const maxBusy = sql.raw('4')

const lease = {
  lease_id: 'uuid',
  /** Milliseconds. */
  lease: 'int',
} as const

/** A webhook, and the lease of the process that sends its deliveries. */
const leased = { id: 'uuid', lease_id: 'uuid' } as const

const isLeased = (p: Placeholders<typeof leased>) =>
  and(eq(webhooks.id, p.id), eq(webhooks.lease_id, p.lease_id))

const leaseEnd = (p: { readonly lease: SQL }): SQL => sql`now() + ${p.lease} * interval '1 millisecond'`

/** How long a webhook rests after a request that failed or took long, so that quick failures do not keep the database busy. */
const rest = sql.raw(`interval '1 second'`)

const restedSince = sql`case ${webhook.queue} when 'prompt' then now() else now() - ${rest} end`

// Deliveries wait while the owner has to sign in.
const isDue = sql`${webhook.due_at} <= now() and ${isActive} and coalesce(${webhook.leased_until} <= ${restedSince}, true)
  and not exists (select from users where ${users.id} = ${webhook.owner_id} and ${isSignInDue(users)})`

/** The free slots of each queue, by its name. */
const slots = { slots: 'json' } as const

/** The free slots of the row's queue. */
const slotsOfQueue = (p: { readonly slots: SQL }, queue: SQLWrapper): SQL =>
  sql`(${p.slots} ->> ${queue})::int`

// Usually nothing is due, and this check takes a tenth of the time of a claim.
const check = statement(
  'webhooks.check_due',
  slots,
  { is_due: 'bool' },
  (p) => sql`
    select exists (
      select from webhooks webhook where ${isDue} and ${slotsOfQueue(p, webhook.queue)} > 0) as is_due`,
)

// In each queue, users who are served least come first, and then the webhooks that were served least recently: a release sets
// `leased_until` to its time. This limits how much the backlog of a webhook, and the number of a user's webhooks, delay others.
const claim = statement('webhooks.claim', { ...lease, ...slots }, { id: 'text', queue: 'text' }, (p) => {
  const served = sql`${webhook.leased_until} nulls first, ${webhook.due_at}`
  return sql`
    with due as (
      select ${ordered.id} from (
        select *, row_number() over (
          partition by ${ranked.queue} order by user_rank, ${ranked.leased_until} nulls first, ${ranked.due_at}) as place
        from (
          select ${webhook.id}, ${webhook.queue}, ${webhook.leased_until}, ${webhook.due_at},
            row_number() over (partition by ${webhook.queue}, ${webhook.owner_id} order by ${served}) + (
              select count(*) from webhooks busy
              where ${busy.owner_id} = ${webhook.owner_id} and ${busy.queue} = ${webhook.queue}
                and ${busy.leased_until} > now()) as user_rank
          from webhooks webhook where ${isDue} and ${slotsOfQueue(p, webhook.queue)} > 0
        ) ranked where user_rank <= ${maxBusy}
      ) ordered where place <= ${slotsOfQueue(p, ordered.queue)}
    ), locked as (
      select ${webhook.id} from webhooks webhook where ${webhook.id} in (select id from due) and ${isDue}
      for no key update skip locked
    )
    update webhooks webhook set lease_id = ${p.lease_id}, leased_until = ${leaseEnd(p)}
    from locked where ${webhook.id} = locked.id returning ${webhook.id}::text, ${webhook.queue}`
})

/** The id of a sending process, and the duration of its leases in milliseconds. */
export interface SenderLease {
  readonly id: string
  readonly duration: number
}

/** A webhook that this process has leased, and the queue that it waited in. */
export interface ClaimedWebhook {
  readonly id: string
  readonly queue: WebhookQueue
}

/** Leases webhooks with due deliveries, of each queue up to the number of its free slots. */
export const claimWebhooks = async (
  db: Database,
  { id, duration }: SenderLease,
  free: PerQueue,
): Promise<readonly ClaimedWebhook[]> => {
  const [due] = await check(db, { slots: free })
  if (due?.is_due !== true) return []
  const claimed = await claim(db, { lease_id: id, lease: duration, slots: free })
  return claimed.flatMap(({ id, queue }) => (isWebhookQueue(queue) ? [{ id, queue }] : []))
}

const move = builtStatement('webhooks.move_to_slow', leased, (db, p) =>
  db.update(webhooks).set({ queue: 'slow' }).where(isLeased(p)),
)

/** Moves a webhook that this process has claimed to the queue `slow`. */
export const moveToSlow = async (db: Database, id: string, { id: leaseId }: SenderLease): Promise<void> => {
  await move(db, { id, lease_id: leaseId })
}

const release = statement(
  'webhooks.release',
  leased,
  {},
  (p) => sql`
    with released as ${builder
      .update(webhooks)
      .set({ lease_id: sql`null`, leased_until: sql`now()` })
      .where(isLeased(p))
      .returning({ id: webhooks.id })}
    select reschedule_webhooks(array_agg(id)) from released`,
)

/** Ends the lease of a webhook. */
export const releaseWebhook = async (
  db: Database,
  id: string,
  { id: leaseId }: SenderLease,
): Promise<void> => {
  await release(db, { id, lease_id: leaseId })
}

const nextColumns = {
  id: 'text',
  event_id: 'text',
  sequence: 'int8',
  attempts: 'int',
  age: 'int8',
  url: 'text',
  secret: 'bytes',
  previous_secret: 'bytes',
  may_deliver: 'bool',
  payload: 'text?',
} as const

const selectNext = statement(
  'webhook_deliveries.select_next',
  { ...leased, limit: 'int' },
  nextColumns,
  (p) => {
    const isTest = sql`${delivery.event_changed_in} is null`
    const payloadOf = (type: SQLWrapper, moment: SQLWrapper, data: SQL): SQL =>
      sql`'{"type":' || to_json(${type})::text || ',"timestamp":"' || ${instantText(moment)} || '","data":' || ${data} || '}'`
    const testData = sql`json_build_object('webhook_id', ${webhook.id})::text`
    return sql`
    select ${delivery.id}::text, ${delivery.event_id}::text, ${delivery.sequence}, ${delivery.attempts},
      (extract(epoch from ${passedSince(delivery.created_at)}) * 1000)::bigint as age, ${webhook.url}, ${webhook.secret},
      case when ${webhook.previous_secret_until} > now() then ${webhook.previous_secret} else '' end as previous_secret,
      ${isTest} or coalesce(${mayDeliver()}, false) as may_deliver,
      case when ${isTest} then ${payloadOf(delivery.event_type, delivery.created_at, testData)}
        else ${payloadOf(event.type, event.created_at, eventJson(event))} end as payload
    from webhooks webhook join users owner on ${owner.id} = ${webhook.owner_id}
      cross join lateral (
        select * from webhook_deliveries delivery
        where ${delivery.webhook_id} = ${webhook.id} and ${delivery.status} = 'pending' and ${delivery.due_at} <= now()
        order by ${delivery.due_at}, ${delivery.sequence} limit ${p.limit}
      ) delivery
      left join events event
        on ${event.changed_in} = ${delivery.event_changed_in} and ${event.ordinal} = ${delivery.event_ordinal}
    where ${webhook.id} = ${p.id} and ${webhook.lease_id} = ${p.lease_id} and ${webhook.leased_until} > now()
      and ${isActive}
    order by ${delivery.due_at}, ${delivery.sequence}`
  },
)

/** A delivery that is due. */
export interface DueDelivery {
  readonly id: string
  readonly webhookId: string
  readonly eventId: string
  readonly sequence: number
  /** Earlier attempts. */
  readonly attempts: number
  /** Milliseconds since its creation. */
  readonly age: number
  readonly url: string
  /** The sealed secrets that sign it. */
  readonly secrets: readonly Buffer[]
  /** Null if the owner of the webhook may no longer see the event. */
  readonly payload: string | null
}

/** The next deliveries of a webhook that this process has claimed, up to `limit`. */
export const selectNextDeliveries = async (
  db: Database,
  webhookId: string,
  { id: leaseId }: SenderLease,
  limit: number,
): Promise<readonly DueDelivery[]> => {
  const rows = await selectNext(db, { id: webhookId, lease_id: leaseId, limit })
  return rows.map((row) => ({
    id: row.id,
    webhookId,
    eventId: row.event_id,
    sequence: row.sequence,
    attempts: row.attempts,
    age: row.age,
    url: row.url,
    secrets: row.previous_secret.length === 0 ? [row.secret] : [row.secret, row.previous_secret],
    payload: row.may_deliver ? row.payload : null,
  }))
}

/** The same time as `maxDeliveryAge`. */
const maxFailing = sql.raw(`interval '3 days'`)

const record = statement(
  'webhook_deliveries.record',
  { lease_id: 'uuid', webhook_id: 'uuid', queue: 'text?', attempts: 'json' },
  { disabled_reason: 'text?', email: 'text', url: 'text' },
  (p) => {
    const attempt = (value: SQL, before: SQLWrapper): SQL =>
      sql`case when attempt.status = 'withheld' then ${before} else ${value} end`
    const endedAt = sql`now() - attempt.recorded_after * interval '1 millisecond'`
    const delivered = {
      status: sql`attempt.status`,
      attempts: attempt(sql`${delivery.attempts} + 1`, delivery.attempts),
      due_at: sql`now() + attempt.retry_in * interval '1 millisecond'`,
      attempted_at: attempt(endedAt, delivery.attempted_at),
      duration_ms: attempt(sql`attempt.duration_ms`, delivery.duration_ms),
      response_status: attempt(sql`attempt.response_status`, delivery.response_status),
      response_body: attempt(sql`attempt.response_body`, delivery.response_body),
      error: attempt(sql`attempt.error`, delivery.error),
      ended_at: sql`case when attempt.status <> 'pending' then ${endedAt} end`,
    }
    const hasFailed = sql`result.has_failed`
    const failingBefore = sql`case when not result.has_succeeded then ${webhook.failing_since} end`
    const reason = sql`case when result.is_gone then 'gone'
      when ${hasFailed} and ${passedSince(failingBefore)} > ${maxFailing} then 'failing' end`
    return sql`
      with attempt as materialized (
        select * from jsonb_to_recordset(${p.attempts} -> 'rows') attempt (
          id uuid, status text, retry_in int, recorded_after int, duration_ms int, response_status int, response_body text,
          error text, is_gone boolean)
      ), delivery as ${builder
        .update(delivery)
        .set(delivered)
        .from(sql`attempt`)
        .where(
          sql`${delivery.id} = attempt.id and ${delivery.webhook_id} = ${p.webhook_id} and ${delivery.status} = 'pending'`,
        )
        .returning({ status: sql`attempt.status`, is_gone: sql`attempt.is_gone` })}, result as (
        select bool_or(status = 'delivered') as has_succeeded, bool_or(status in ('pending', 'failed')) as has_failed,
          bool_or(is_gone) as is_gone
        from delivery having count(*) > 0
      ), webhook as ${builder
        .update(webhook)
        .set({
          failing_since: sql`case when ${hasFailed} then coalesce(${failingBefore}, now()) else ${failingBefore} end`,
          is_enabled: sql`${webhook.is_enabled} and ${reason} is null`,
          disabled_reason: sql`coalesce(${reason}, ${webhook.disabled_reason})`,
          queue: sql`coalesce(${p.queue}, ${webhook.queue})`,
        })
        .from(sql`result`)
        .where(
          sql`${webhook.id} = ${p.webhook_id} and ${webhook.lease_id} = ${p.lease_id}
            and (${hasFailed} or ${webhook.failing_since} is not null or ${webhook.queue} <> ${p.queue})`,
        )
        .returning()}
      select case when not ${webhook.is_enabled} then ${webhook.disabled_reason} end as disabled_reason,
        ${owner.email}, ${webhook.url}
      from webhook join users owner on ${owner.id} = ${webhook.owner_id}`
  },
)

/** The result of an attempt. */
export interface Attempt {
  readonly deliveryId: string
  /** The `performance.now()` at its end. */
  readonly endedAt: number
  /** `pending`: it is attempted again in `retryIn` milliseconds. */
  readonly status: 'pending' | 'delivered' | 'failed' | 'withheld'
  readonly retryIn: number
  readonly duration: number
  readonly responseStatus: number | null
  readonly responseBody: string | null
  readonly error: string | null
  /** Whether the receiver responded with 410, which disables the webhook. */
  readonly isGone: boolean
}

/** A webhook that the service has disabled, and the address of its owner. */
export interface DisabledWebhook {
  readonly url: string
  readonly email: string
}

/** Attempts on a webhook, of which only the last may have failed, and its queue after them: null if no request was sent. */
export interface Attempts {
  readonly webhookId: string
  readonly attempts: readonly Attempt[]
  readonly queue: WebhookQueue | null
}

/**
 * Stores attempts. Returns the webhook if this disabled it. Successes of a prompt receiver do not write the webhook, whose row may be
 * locked by a statement that makes deliveries.
 */
export const recordAttempts = async (
  db: Database,
  { webhookId, attempts, queue }: Attempts,
  { id: leaseId }: SenderLease,
): Promise<DisabledWebhook | null> => {
  const now = performance.now()
  const [row] = await record(db, {
    webhook_id: webhookId,
    lease_id: leaseId,
    queue,
    // Wrapped in an object, since the driver sends an array as a PostgreSQL array.
    attempts: {
      rows: attempts.map((attempt) => ({
        id: attempt.deliveryId,
        status: attempt.status,
        retry_in: attempt.retryIn,
        recorded_after: Math.round(now - attempt.endedAt),
        duration_ms: attempt.duration,
        response_status: attempt.responseStatus,
        response_body: attempt.responseBody,
        error: attempt.error,
        is_gone: attempt.isGone,
      })),
    },
  })
  return row === undefined || row.disabled_reason === null ? null : { url: row.url, email: row.email }
}

/** Deletes deliveries that are older than the retention. */
export const removeOldDeliveries = deletionInBatches('webhook_deliveries.delete_old', {
  parameters: { days: 'int' },
  table: webhookDeliveries,
  condition: (p) =>
    sql`${webhookDeliveries.created_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})

/** A delivery in the path of a request. */
export interface DeliveryPath {
  readonly webhookId: string
  readonly id: string
}

const pathParameters = { webhook_id: 'uuid', id: 'uuid' } as const

/** Whether the caller sees the webhook with an id. Not correlated to a row, so that a list evaluates it once. */
const seesWebhook = (caller: CallerPlaceholders, id: SQL): SQL => sql`exists (
  select from webhooks webhook where ${webhook.id} = ${id} and ${allowsWebhook('webhook.see', caller, webhook)})`

const selectOne = query(
  'webhook_deliveries.select',
  pathParameters,
  { json: 'text' },
  (p) => sql`
    select ${webhookDeliveryJson(delivery)} as json from webhook_deliveries delivery
    where ${delivery.id} = ${p.id} and ${delivery.webhook_id} = ${p.webhook_id} and ${seesWebhook(p, p.webhook_id)}`,
)

/** One delivery as JSON text, if the caller can see its webhook. */
export const selectDelivery = async (
  ctx: StatementContext,
  { webhookId, id }: DeliveryPath,
): Promise<{ readonly json: string } | null> => firstRow(await selectOne(ctx, { webhook_id: webhookId, id }))

const isWebhookVisible = visibilityCheck('webhook_deliveries.check_webhook', seesWebhook)

/** Filters of a list of deliveries. */
export interface DeliveryFilter {
  readonly status?: readonly string[]
}

const filters = { status: filterOneOf('text', item.status) }

/** A page of the deliveries of a webhook, if the caller can see it. */
export const selectDeliveries = (
  ctx: StatementContext<Principal>,
  webhookId: string,
  { status }: DeliveryFilter,
  page: PageRequest,
): Promise<Page | null> => {
  const id = parameter('webhook_id', 'uuid')
  const conditions = conditionsOf(filters, status === undefined ? {} : { status })
  return selectPageOf(
    ctx,
    {
      name: 'webhook_deliveries',
      table: webhookDeliveries,
      branches: (caller) => onlyBranch(sql`${item.webhook_id} = ${id} and ${seesWebhook(caller, id)}`),
      values: { webhook_id: webhookId },
      filters: conditions.map(searched),
      ...newest,
      json: webhookDeliveryJson,
    },
    page,
    () => isWebhookVisible(ctx, webhookId),
  )
}

/** What a delivery sends: an event, or a test message, which has none. */
export interface Message {
  readonly event_id: string
  readonly event_type: string
  readonly event_changed_in: string | null
  readonly event_ordinal: number | null
}

/** A test message. */
export const testMessage = (id: string): Message => ({
  event_id: id,
  event_type: 'webhook.test',
  event_changed_in: null,
  event_ordinal: null,
})

const selectSent = builtStatement('webhook_deliveries.select_message', pathParameters, (db, p) =>
  db
    .select({
      event_id: webhookDeliveries.event_id,
      event_type: webhookDeliveries.event_type,
      event_changed_in: webhookDeliveries.event_changed_in,
      event_ordinal: webhookDeliveries.event_ordinal,
    })
    .from(webhookDeliveries)
    .where(and(eq(webhookDeliveries.id, p.id), eq(webhookDeliveries.webhook_id, p.webhook_id))),
)

/** The message of a delivery, if there is such a delivery. */
export const selectMessage = async (
  { db }: TransactionContext,
  { webhookId, id }: DeliveryPath,
): Promise<Message | null> => firstRow(await selectSent(db, { webhook_id: webhookId, id }))

const insert = builtStatement(
  'webhook_deliveries.insert',
  {
    id: 'uuid',
    webhook_id: 'uuid',
    sequence: 'int8',
    event_id: 'uuid',
    event_type: 'text',
    event_changed_in: 'xid8?',
    event_ordinal: 'int8?',
  } satisfies ParametersOf<typeof webhookDeliveries>,
  (db, p) => db.insert(webhookDeliveries).values({ ...p, due_at: whenAdded }),
)

const advance = builtStatement('webhooks.advance', { id: 'uuid', sequence: 'int8' }, (db, p) =>
  db
    .update(webhooks)
    .set({ last_sequence: p.sequence, due_at: dueAfterAdding(webhooks.due_at) })
    .where(eq(webhooks.id, p.id)),
)

/** Adds a delivery to a webhook. */
export const insertDelivery = async (
  { db }: TransactionContext,
  id: string,
  { id: webhookId, last_sequence }: ChangeableWebhook,
  message: Message,
): Promise<void> => {
  const sequence = last_sequence + 1
  await pipeline(db, {
    sequence: () => advance(db, { id: webhookId, sequence }),
    delivery: () => insert(db, { id, webhook_id: webhookId, sequence, ...message }),
  })
}

const reread = query(
  'webhook_deliveries.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${webhookDeliveryJson(delivery)} as json from webhook_deliveries delivery where ${delivery.id} = ${p.id}`,
)

/** A delivery that the transaction has added. */
export const viewDelivery = async (tx: TransactionContext, id: string): Promise<{ readonly json: string }> =>
  expectRow(await reread(tx, { id }))
