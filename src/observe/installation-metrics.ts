import { statfs } from 'node:fs/promises'
import { Gauge, Registry } from 'prom-client'
import { withTimeout } from '../concurrency/deadline.ts'
import { memoizeFor } from '../concurrency/memoize.ts'
import type { Database } from '../db/engine/client.ts'
import { type Backlog, maxCountedDeliveries, selectBacklog } from '../db/upkeep/statistics.ts'
import type { MetricsSource } from './metrics-server.ts'

/** The folders whose disks are observed, by content. */
export type DataFolders = Readonly<Partial<Record<'database' | 'attachments', string>>>

interface Options {
  readonly db: Database
  readonly folders: DataFolders
  readonly times?: InstallationMetricsTimes
}

/** Milliseconds. */
export interface InstallationMetricsTimes {
  /** Lifetime of cached values of the database and the disks. */
  readonly memory: number
  /** Time that a scrape waits for these values. */
  readonly wait: number
}

/** Prometheus gives up a scrape after 10 seconds. */
const usualTimes: InstallationMetricsTimes = { memory: 5_000, wait: 2_000 }

/**
 * Metrics of the installation. They are the same in every process, so one process exposes them, not every worker. A gauge that
 * cannot be read has no series.
 */
export const createInstallationMetrics = ({ db, folders, times = usualTimes }: Options): MetricsSource => {
  const registry = new Registry()
  const backlog = backlogGauges(registry)
  const disks = diskGauges(registry, folders)
  const observeBacklog = memoizeFor(times.memory, () => selectBacklog(db).then(backlog.set, backlog.clear))
  const observeDisks = memoizeFor(times.memory, disks.observe)
  return {
    contentType: registry.contentType,
    async metrics() {
      await Promise.all([
        withTimeout(times.wait, observeBacklog(), late).catch(backlog.clear),
        withTimeout(times.wait, observeDisks(), late).catch(disks.clear),
      ])
      return registry.metrics()
    },
  }
}

/** Creates a gauge without a series. */
const createGauge = <Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  ...labelNames: readonly Label[]
): Gauge<Label> => {
  const gauge = new Gauge({ name, help, labelNames, registers: [registry] })
  if (labelNames.length === 0) gauge.remove()
  return gauge
}

const backlogGauges = (registry: Registry) => {
  const outboxLag = createGauge(
    registry,
    'taskwright_outbox_lag_seconds',
    'Age of the oldest event that a reader of events has not read; 0 when it is up to date',
    'reader',
  )
  const webhookLag = createGauge(
    registry,
    'taskwright_webhook_lag_seconds',
    'How long the oldest delivery of an enabled webhook has been due; 0 when none is',
  )
  const deliveriesPending = createGauge(
    registry,
    'taskwright_webhook_deliveries_pending',
    `Deliveries of webhooks that are due or to be repeated; at most ${maxCountedDeliveries} are counted`,
  )
  const exportsPending = createGauge(registry, 'taskwright_exports_pending', 'Exports that wait or run')
  const importsPending = createGauge(registry, 'taskwright_imports_pending', 'Imports that wait or run')
  const horizonLag = createGauge(
    registry,
    'taskwright_horizon_lag_seconds',
    'How long one transaction on the database server has been seen to hold back events and changes; 0 when none does',
  )
  let held: { readonly at: string | null; readonly since: number } = { at: null, since: 0 }
  return {
    set: ({ notifications, webhooks, deliveries, pending, exports, imports, heldAt }: Backlog): void => {
      if (heldAt !== held.at) held = { at: heldAt, since: performance.now() }
      horizonLag.set(heldAt === null ? 0 : (performance.now() - held.since) / 1_000)
      outboxLag.set({ reader: 'notifications' }, notifications / 1_000)
      outboxLag.set({ reader: 'webhooks' }, webhooks / 1_000)
      webhookLag.set(deliveries / 1_000)
      deliveriesPending.set(pending)
      exportsPending.set(exports)
      importsPending.set(imports)
    },
    clear: (): void => {
      outboxLag.reset()
      webhookLag.remove()
      deliveriesPending.remove()
      exportsPending.remove()
      importsPending.remove()
      horizonLag.remove()
    },
  }
}

const diskGauges = (registry: Registry, { database, attachments }: DataFolders) => {
  const free = createGauge(
    registry,
    'taskwright_disk_free_bytes',
    'Free space of the disk that holds data',
    'holds',
  )
  const size = createGauge(
    registry,
    'taskwright_disk_size_bytes',
    'Size of the disk that holds data',
    'holds',
  )
  const observeDisk = async (holds: keyof DataFolders, folder: string): Promise<void> => {
    try {
      const { bavail, blocks, bsize } = await statfs(folder)
      free.set({ holds }, bavail * bsize)
      size.set({ holds }, blocks * bsize)
    } catch {
      for (const gauge of [free, size]) gauge.remove(holds)
    }
  }
  return {
    observe: async (): Promise<void> => {
      if (database !== undefined) await observeDisk('database', database)
      if (attachments !== undefined) await observeDisk('attachments', attachments)
    },
    clear: (): void => {
      for (const gauge of [free, size]) gauge.reset()
    },
  }
}

const late = (): Error => new Error('No answer in time')

/** Merges several sources. They are read one after the other, so that none counts the statements of another one's scrape. */
export const mergeMetrics = (first: MetricsSource, ...others: readonly MetricsSource[]): MetricsSource => ({
  contentType: first.contentType,
  async metrics() {
    const texts = [await first.metrics()]
    for (const source of others) texts.push(await source.metrics())
    return texts.join('')
  },
})
