import type { Page, PageRequest } from '../domain/pages.ts'
import type { Principal } from '../domain/permissions.ts'
import { isWebhookQueue, type PerQueue, type WebhookQueue } from '../domain/webhook-queues.ts'
import { onlyBranch } from './access/branches.ts'
import {
  allowsEvent,
  allowsProject,
  allowsWebhook,
  type CallerPlaceholders,
  usersOfEvent,
} from './access/permissions.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { conditionsOf, filterOneOf, searched } from './engine/conditions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { StatementContext, TransactionContext } from './engine/context.ts'
import { instantText } from './engine/instant-text.ts'
import { parameter } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { createdAt, newestFirst, pageIfVisible, selectPage, visibilityCheck } from './lists/list.ts'
import { eventReader } from './event-readers.ts'
import { matchesEventTypes } from './events.ts'
import { eventJson, webhookDeliveryJson } from './read-models.ts'
import { passedSince, retentionTime } from './engine/retention.ts'
import { assignments, columnsOf, type ColumnValues, insertion } from './schema/columns.ts'
import { and, eq, type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'
import { webhookDeliveries, webhooks } from './schema/tables.ts'
import type { ChangeableWebhook } from './webhooks.ts'

/**
 * Deliveries of webhooks. An event reader makes them, once per event: the statement that makes them also moves the reader. Processes
 * then lease webhooks with due deliveries, so a webhook has one request at a time. When a process dies, its leases expire, and
 * requests whose result it had not stored are repeated.
 */

const webhook = sql.raw('webhook')
const delivery = sql.raw('delivery')
const event = sql.raw('event')
const owner = sql.raw('owner')
const ofWebhook = columnsOf<'webhooks'>(webhook)
const ofDelivery = columnsOf<'webhook_deliveries'>(delivery)
const ofEvent = columnsOf<'events'>(event)

/** Whether the row `webhook` gets deliveries. */
export const isActive = sql`${ofWebhook.is_enabled} and ${ofWebhook.deleted_at} is null`

/**
 * Whether the row `webhook` of the row `owner` may deliver the row `event`. With a project, the event must be in it, and the owner must
 * manage it; without one, the owner must see the event even without the administrator role.
 */
const mayDeliver = (): SQL => {
  const { deleted_at, is_disabled, role } = columnsOf<'users'>(owner)
  const { id } = columnsOf<'projects'>(sql`projects`)
  const isOfProject = sql`${ofWebhook.project_id} is not null`
  const caller = {
    caller: ofWebhook.owner_id,
    is_admin: sql`(${isOfProject} and ${role} = 'admin')`,
    in_session: sql`false`,
  }
  return sql`(${deleted_at} is null and not ${is_disabled} and ${allowsEvent('event.see', caller, event)}
    and (${ofWebhook.project_id} is null or (${ofWebhook.project_id} = ${ofEvent.project_id} and exists (
      select from projects where ${id} = ${ofWebhook.project_id}
        and ${allowsProject('project.manage', caller, sql`projects`)}))))`
}

/**
 * When a webhook is due to which deliveries are added. May be too early, but never too late. The row is locked, which serializes it with
 * `reschedule_webhooks`.
 */
const dueAfterAdding = (dueBefore: SQLWrapper): SQL => sql`least(${dueBefore}, now())`

/**
 * When an added delivery is due. Not now(): of two transactions, the one that began first may add its deliveries second, after those
 * with lower sequences.
 */
const dueWhenAdded = sql`clock_timestamp()`

/** The deliveries of the events `batch`. Viewers are selected before webhooks, so that access is not checked for every webhook. */
const newDeliveries = (): SQL => {
  const { columns, values } = insertion<'webhook_deliveries'>({
    id: sql`event_id(clock_timestamp(), sequence)`,
    webhook_id: sql`counted.id`,
    sequence: sql`sequence`,
    event_id: sql`matched.event_id`,
    event_type: sql`matched.event_type`,
    event_changed_in: sql`matched.changed_in`,
    event_ordinal: sql`matched.ordinal`,
    due_at: dueWhenAdded,
  })
  // OFFSET keeps the planner from reading all webhooks. A webhook from the future is from before the clock was set back.
  const matched = (events: SQL, isOfEvent: SQL): SQL => sql`
    select ${ofWebhook.id} as webhook_id, ${ofEvent.id} as event_id, ${ofEvent.type} as event_type, ${ofEvent.changed_in},
      ${ofEvent.ordinal}
    from ${events} event cross join lateral (select * from webhooks webhook where ${isOfEvent} offset 0) webhook
      join users owner on owner.id = ${ofWebhook.owner_id}
    where ${isActive} and (${ofWebhook.created_at} <= ${ofEvent.created_at} or ${ofWebhook.created_at} > now())
      and ${matchesEventTypes(ofEvent.type, ofWebhook.event_types)} and ${mayDeliver()}`
  return sql`
    candidates as materialized (
      select event.*, candidate.user_id as candidate_id from batch event cross join lateral (${usersOfEvent(event)}) candidate
    ), matched as materialized (
      ${matched(sql`candidates`, sql`${ofWebhook.owner_id} = event.candidate_id and ${ofWebhook.project_id} is null`)}
      union all
      ${matched(sql`batch`, sql`${ofWebhook.project_id} = ${ofEvent.project_id}`)}
    ), counted as (
      update webhooks webhook set ${assignments<'webhooks'>({
        last_sequence: sql`${ofWebhook.last_sequence} + added.deliveries`,
        due_at: dueAfterAdding(ofWebhook.due_at),
      })}
      from (select webhook_id, count(*) as deliveries from matched group by webhook_id) added
      where ${ofWebhook.id} = added.webhook_id
      returning ${ofWebhook.id}, ${ofWebhook.last_sequence} - added.deliveries as before
    ), added as (
      insert into webhook_deliveries (${columns})
      select ${values} from (
        select matched.*, row_number() over (partition by webhook_id order by changed_in, ordinal) as place from matched
      ) matched join counted on counted.id = matched.webhook_id
        cross join lateral (select before + place as sequence) numbered
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
  isOfInterest: sql`exists (select from webhooks webhook where ${isActive})`,
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

const leaseEnd = (p: { readonly lease: SQL }): SQL => sql`now() + ${p.lease} * interval '1 millisecond'`

/** How long a webhook rests after a request that failed or took long, so that quick failures do not keep the database busy. */
const rest = sql.raw(`interval '1 second'`)

const restedSince = sql`case ${ofWebhook.queue} when 'prompt' then now() else now() - ${rest} end`

const isDue = sql`${ofWebhook.due_at} <= now() and ${isActive} and coalesce(${ofWebhook.leased_until} <= ${restedSince}, true)`

/** The free slots of each queue, by its name. */
const slots = { slots: 'json' } as const

/** The free slots of the row's queue. */
const slotsOfQueue = (p: { readonly slots: SQL }, queue: SQL): SQL => sql`(${p.slots} ->> ${queue})::int`

// Usually nothing is due, and this check takes a tenth of the time of a claim.
const check = statement(
  'webhooks.check_due',
  slots,
  { is_due: 'bool' },
  (p) => sql`
    select exists (
      select from webhooks webhook where ${isDue} and ${slotsOfQueue(p, ofWebhook.queue)} > 0) as is_due`,
)

// In each queue, users who are served least come first, and then the webhooks that were served least recently: a release sets
// `leased_until` to its time. This limits how much the backlog of a webhook, and the number of a user's webhooks, delay others.
const claim = statement('webhooks.claim', { ...lease, ...slots }, { id: 'text', queue: 'text' }, (p) => {
  const served = sql`${ofWebhook.leased_until} nulls first, ${ofWebhook.due_at}`
  const busy = columnsOf<'webhooks'>(sql`busy`)
  const ranked = columnsOf<'webhooks'>(sql`ranked`)
  const ordered = columnsOf<'webhooks'>(sql`ordered`)
  return sql`
    with due as (
      select ${ordered.id} from (
        select *, row_number() over (
          partition by ${ranked.queue} order by user_rank, ${ranked.leased_until} nulls first, ${ranked.due_at}) as place
        from (
          select ${ofWebhook.id}, ${ofWebhook.queue}, ${ofWebhook.leased_until}, ${ofWebhook.due_at},
            row_number() over (partition by ${ofWebhook.queue}, ${ofWebhook.owner_id} order by ${served}) + (
              select count(*) from webhooks busy
              where ${busy.owner_id} = ${ofWebhook.owner_id} and ${busy.queue} = ${ofWebhook.queue}
                and ${busy.leased_until} > now()) as user_rank
          from webhooks webhook where ${isDue} and ${slotsOfQueue(p, ofWebhook.queue)} > 0
        ) ranked where user_rank <= ${maxBusy}
      ) ordered where place <= ${slotsOfQueue(p, ordered.queue)}
    ), locked as (
      select ${ofWebhook.id} from webhooks webhook where ${ofWebhook.id} in (select id from due) and ${isDue}
      for no key update skip locked
    )
    update webhooks webhook set ${assignments<'webhooks'>({ lease_id: p.lease_id, leased_until: leaseEnd(p) })}
    from locked where ${ofWebhook.id} = locked.id returning ${ofWebhook.id}::text, ${ofWebhook.queue}`
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

const move = statement(
  'webhooks.move_to_slow',
  { id: 'uuid', lease_id: 'uuid' },
  {},
  (p) => sql`
    update webhooks webhook set ${assignments<'webhooks'>({ queue: sql`'slow'` })}
    where ${ofWebhook.id} = ${p.id} and ${ofWebhook.lease_id} = ${p.lease_id}`,
)

/** Moves a webhook that this process has claimed to the queue `slow`. */
export const moveToSlow = async (db: Database, id: string, { id: leaseId }: SenderLease): Promise<void> => {
  await move(db, { id, lease_id: leaseId })
}

const release = statement(
  'webhooks.release',
  { id: 'uuid', lease_id: 'uuid' },
  {},
  (p) => sql`
    with released as (
      update webhooks webhook set ${assignments<'webhooks'>({ lease_id: sql`null`, leased_until: sql`now()` })}
      where ${ofWebhook.id} = ${p.id} and ${ofWebhook.lease_id} = ${p.lease_id} returning ${ofWebhook.id}
    )
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
  { id: 'uuid', lease_id: 'uuid', limit: 'int' },
  nextColumns,
  (p) => {
    const isTest = sql`${ofDelivery.event_changed_in} is null`
    const payloadOf = (type: SQL, moment: SQL, data: SQL): SQL =>
      sql`'{"type":' || to_json(${type})::text || ',"timestamp":"' || ${instantText(moment)} || '","data":' || ${data} || '}'`
    const ofTest = sql`json_build_object('webhook_id', ${ofWebhook.id})::text`
    return sql`
    select ${ofDelivery.id}::text, ${ofDelivery.event_id}::text, ${ofDelivery.sequence}, ${ofDelivery.attempts},
      (extract(epoch from ${passedSince(ofDelivery.created_at)}) * 1000)::bigint as age, ${ofWebhook.url}, ${ofWebhook.secret},
      case when ${ofWebhook.previous_secret_until} > now() then ${ofWebhook.previous_secret} else '' end as previous_secret,
      ${isTest} or coalesce(${mayDeliver()}, false) as may_deliver,
      case when ${isTest} then ${payloadOf(ofDelivery.event_type, ofDelivery.created_at, ofTest)}
        else ${payloadOf(ofEvent.type, ofEvent.created_at, eventJson(event))} end as payload
    from webhooks webhook join users owner on owner.id = ${ofWebhook.owner_id}
      cross join lateral (
        select * from webhook_deliveries delivery
        where ${ofDelivery.webhook_id} = ${ofWebhook.id} and ${ofDelivery.status} = 'pending' and ${ofDelivery.due_at} <= now()
        order by ${ofDelivery.due_at}, ${ofDelivery.sequence} limit ${p.limit}
      ) delivery
      left join events event
        on ${ofEvent.changed_in} = ${ofDelivery.event_changed_in} and ${ofEvent.ordinal} = ${ofDelivery.event_ordinal}
    where ${ofWebhook.id} = ${p.id} and ${ofWebhook.lease_id} = ${p.lease_id} and ${ofWebhook.leased_until} > now()
      and ${isActive}
    order by ${ofDelivery.due_at}, ${ofDelivery.sequence}`
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
    const attempt = (value: SQL, before: SQL): SQL =>
      sql`case when attempt.status = 'withheld' then ${before} else ${value} end`
    const endedAt = sql`now() - attempt.recorded_after * interval '1 millisecond'`
    const delivered: ColumnValues<'webhook_deliveries'> = {
      status: sql`attempt.status`,
      attempts: attempt(sql`${ofDelivery.attempts} + 1`, ofDelivery.attempts),
      due_at: sql`now() + attempt.retry_in * interval '1 millisecond'`,
      attempted_at: attempt(endedAt, ofDelivery.attempted_at),
      duration_ms: attempt(sql`attempt.duration_ms`, ofDelivery.duration_ms),
      response_status: attempt(sql`attempt.response_status`, ofDelivery.response_status),
      response_body: attempt(sql`attempt.response_body`, ofDelivery.response_body),
      error: attempt(sql`attempt.error`, ofDelivery.error),
      ended_at: sql`case when attempt.status <> 'pending' then ${endedAt} end`,
    }
    const hasFailed = sql`result.has_failed`
    const failingBefore = sql`case when not result.has_succeeded then ${ofWebhook.failing_since} end`
    const reason = sql`case when result.is_gone then 'gone'
      when ${hasFailed} and ${passedSince(failingBefore)} > ${maxFailing} then 'failing' end`
    return sql`
      with attempt as materialized (
        select * from jsonb_to_recordset(${p.attempts} -> 'rows') attempt (
          id uuid, status text, retry_in int, recorded_after int, duration_ms int, response_status int, response_body text,
          error text, is_gone boolean)
      ), delivery as (
        update webhook_deliveries delivery set ${assignments<'webhook_deliveries'>(delivered)} from attempt
        where ${ofDelivery.id} = attempt.id and ${ofDelivery.webhook_id} = ${p.webhook_id} and ${ofDelivery.status} = 'pending'
        returning attempt.status, attempt.is_gone
      ), result as (
        select bool_or(status = 'delivered') as has_succeeded, bool_or(status in ('pending', 'failed')) as has_failed,
          bool_or(is_gone) as is_gone
        from delivery having count(*) > 0
      ), webhook as (
        update webhooks webhook set ${assignments<'webhooks'>({
          failing_since: sql`case when ${hasFailed} then coalesce(${failingBefore}, now()) else ${failingBefore} end`,
          is_enabled: sql`${ofWebhook.is_enabled} and ${reason} is null`,
          disabled_reason: sql`coalesce(${reason}, ${ofWebhook.disabled_reason})`,
          queue: sql`coalesce(${p.queue}, ${ofWebhook.queue})`,
        })} from result
        where ${ofWebhook.id} = ${p.webhook_id} and ${ofWebhook.lease_id} = ${p.lease_id}
          and (${hasFailed} or ${ofWebhook.failing_since} is not null or ${ofWebhook.queue} <> ${p.queue})
        returning webhook.*
      )
      select case when not ${ofWebhook.is_enabled} then ${ofWebhook.disabled_reason} end as disabled_reason,
        ${columnsOf<'users'>(owner).email}, ${ofWebhook.url}
      from webhook join users owner on owner.id = ${ofWebhook.owner_id}`
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
  table: 'webhook_deliveries',
  condition: (p) =>
    sql`${columnsOf<'webhook_deliveries'>(sql`webhook_deliveries`).created_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})

/** A delivery in the path of a request. */
export interface DeliveryPath {
  readonly webhookId: string
  readonly id: string
}

const pathParameters = { webhook_id: 'uuid', id: 'uuid' } as const

/** Whether the caller sees the webhook with an id. Not correlated to a row, so that a list evaluates it once. */
const seesWebhook = (caller: CallerPlaceholders, id: SQL): SQL => sql`exists (
  select from webhooks webhook where ${ofWebhook.id} = ${id} and ${allowsWebhook('webhook.see', caller, webhook)})`

const selectOne = query(
  'webhook_deliveries.select',
  pathParameters,
  { json: 'text' },
  (p) => sql`
    select ${webhookDeliveryJson(delivery)} as json from webhook_deliveries delivery
    where ${ofDelivery.id} = ${p.id} and ${ofDelivery.webhook_id} = ${p.webhook_id} and ${seesWebhook(p, p.webhook_id)}`,
)

/** One delivery as JSON text, if the caller can see its webhook. */
export const selectDelivery = async (
  ctx: StatementContext,
  { webhookId, id }: DeliveryPath,
): Promise<{ readonly json: string } | null> => {
  const [row] = await selectOne(ctx, { webhook_id: webhookId, id })
  return row ?? null
}

const isWebhookVisible = visibilityCheck('webhook_deliveries.check_webhook', seesWebhook)

/** Filters of a list of deliveries. */
export interface DeliveryFilter {
  readonly status?: readonly string[]
}

const filters = { status: filterOneOf('text', columnsOf<'webhook_deliveries'>(sql`item`).status) }

/** A page of the deliveries of a webhook, if the caller can see it. */
export const selectDeliveries = async (
  ctx: StatementContext<Principal>,
  webhookId: string,
  { status }: DeliveryFilter,
  page: PageRequest,
): Promise<Page | null> => {
  const id = parameter('webhook_id', 'uuid')
  const conditions = conditionsOf(filters, status === undefined ? {} : { status })
  const deliveries = await selectPage(
    ctx.db,
    {
      name: 'webhook_deliveries',
      from: sql`webhook_deliveries item`,
      branches: (caller) => onlyBranch(sql`item.webhook_id = ${id} and ${seesWebhook(caller, id)}`),
      values: { webhook_id: webhookId },
      filters: conditions.map(searched),
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => webhookDeliveryJson(row),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(deliveries, () => isWebhookVisible(ctx, webhookId))
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
): Promise<Message | null> => {
  const [row] = await selectSent(db, { webhook_id: webhookId, id })
  return row ?? null
}

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
  },
  (db, p) =>
    db.insert(webhookDeliveries).values({
      id: p.id,
      webhook_id: p.webhook_id,
      sequence: p.sequence,
      event_id: p.event_id,
      event_type: p.event_type,
      event_changed_in: p.event_changed_in,
      event_ordinal: p.event_ordinal,
      due_at: dueWhenAdded,
    }),
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
  await Promise.all([
    advance(db, { id: webhookId, sequence }),
    insert(db, { id, webhook_id: webhookId, sequence, ...message }),
  ])
}

const reread = query(
  'webhook_deliveries.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${webhookDeliveryJson(delivery)} as json from webhook_deliveries delivery where id = ${p.id}`,
)

/** A delivery that the transaction has added. */
export const viewDelivery = async (
  tx: TransactionContext,
  id: string,
): Promise<{ readonly json: string }> => {
  const [row] = await reread(tx, { id })
  if (row === undefined) throw new Error('The added delivery is gone')
  return row
}
