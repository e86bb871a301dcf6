import type { Database } from '../engine/client.ts'
import { horizon } from '../shared/horizon.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { aliasedTable, type SQL, sql } from '../schema/drizzle.ts'
import { eventReaders, events, exports, imports, webhookDeliveries, webhooks } from '../schema/tables.ts'
import { isImportBusy } from '../shared/read-models.ts'
import { isActive } from '../activity/webhook-deliveries.ts'

/** The backlog of background work of the whole installation, for operators. */

const event = aliasedTable(events, 'event')
const reader = aliasedTable(eventReaders, 'reader')
const webhook = aliasedTable(webhooks, 'webhook')
const delivery = aliasedTable(webhookDeliveries, 'delivery')
const exported = aliasedTable(exports, 'exported')
const imported = aliasedTable(imports, 'imported')

/** Maximum number of pending deliveries to count, so that a long backlog does not slow the statement down. */
export const maxCountedDeliveries = 10_000

/** Milliseconds since a time, 0 for null. */
const ageOf = (time: SQL): SQL =>
  sql`greatest(coalesce((extract(epoch from clock_timestamp() - (${time})) * 1000)::bigint, 0), 0)`

/** Events per reader that are read: more than one, because the times of the first are in the future after the clock was set back. */
const maxEvents = sql.raw('100')

/** The oldest of the next events of a reader. It includes events that an open transaction keeps the reader from. */
const unreadSince = (name: string): SQL => sql`
  select min(${event.created_at}) from event_readers reader cross join lateral (
    select * from events event
    where (${event.changed_in}, ${event.ordinal}) > (${reader.changed_in}, ${reader.ordinal})
    order by ${event.changed_in}, ${event.ordinal} limit ${maxEvents}
  ) event where ${reader.name} = ${sql.raw(`'${name}'`)}`

/** Maximum number of webhooks whose deliveries are read, those that have waited longest first. */
const maxWebhooks = sql.raw('100')

/** The oldest delivery that is due. A webhook's own `due_at` is too early while it is served. */
const dueSince = sql`
  select min(${delivery.due_at}) from (
    select ${webhook.id} from webhooks webhook
    where ${webhook.due_at} <= now() and ${isActive}
    order by ${webhook.due_at} limit ${maxWebhooks}
  ) webhook cross join lateral (
    select ${delivery.due_at} from webhook_deliveries delivery
    where ${delivery.webhook_id} = ${webhook.id} and ${delivery.status} = 'pending' and ${delivery.due_at} <= now()
    order by ${delivery.due_at} limit 1
  ) delivery`

/** The horizon, if a later transaction has ended. Its age cannot be read: PostgreSQL hides the sessions of other users. */
const heldAt = sql`
  case when ${horizon} < pg_snapshot_xmax(pg_current_snapshot()) then ${horizon}::text end`

const readBacklog = statement(
  'statistics.select_backlog',
  {},
  {
    notifications: 'int8',
    webhooks: 'int8',
    deliveries: 'int8',
    pending: 'int8',
    exports: 'int8',
    imports: 'int8',
    heldAt: 'text?',
  },
  () => sql`
    select ${ageOf(unreadSince('notifications'))} as notifications, ${ageOf(unreadSince('webhooks'))} as webhooks,
      ${ageOf(dueSince)} as deliveries,
      (select count(*) from (
        select from webhook_deliveries delivery where ${delivery.status} = 'pending'
        limit ${sql.raw(String(maxCountedDeliveries))}
      ) pending) as pending,
      (select count(*) from exports exported where ${exported.status} in ('waiting', 'running')) as exports,
      (select count(*) from imports imported where ${isImportBusy(imported)}) as imports,
      ${heldAt} as "heldAt"`,
)

/** The backlog of background work. Ages are in milliseconds, 0 when nothing waits. */
export interface Backlog {
  /** Age of the oldest event that the reader for notifications has not read. */
  readonly notifications: number
  /** Age of the oldest event that the reader for webhooks has not read. */
  readonly webhooks: number
  /** Time for which the oldest delivery has been due. */
  readonly deliveries: number
  /** Number of deliveries that are due or will be retried, up to `maxCountedDeliveries`. */
  readonly pending: number
  /** Exports that wait or run. */
  readonly exports: number
  /** Imports that wait or run. */
  readonly imports: number
  /** The id of the oldest running transaction, for which readers of later events and changes wait; null if none waits. */
  readonly heldAt: string | null
}

/** Reads the backlog. Cheap, regardless of its length: it reads only a few index entries. */
export const selectBacklog = async (db: Database): Promise<Backlog> => expectRow(await readBacklog(db, {}))
