import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readConfig } from '../../../src/config/config.ts'
import { type Database, openDatabase } from '../../../src/db/engine/client.ts'
import { maxConnections } from '../../../src/db/engine/pool.ts'
import { createClient } from '../../../src/db/engine/connection.ts'
import { countFileDeletions } from '../../../src/db/files/deletions.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from '../../../src/jobs/inventory.ts'
import { openStorage } from '../../../src/storage/open.ts'
import type { Storage } from '../../../src/storage/storage.ts'
import { eventually } from '../../../test/fixture/eventually.ts'
import { freePort } from '../../../test/fixture/ports.ts'
import { childrenOf, startServer, unreachedLimits } from '../../run/processes.ts'
import { startPostgres } from '../../run/postgres.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'
import { createLoad, type Observation, totalOf } from '../load.ts'
import { everydayActions } from './actions.ts'
import { monitor, type Sample } from './monitor.ts'

/**
 * `node scripts/faults/soak/run.ts --minutes 10 --workers 1`: a long run under mixed load below saturation, with samples of the resources of the
 * service. At the end, all acknowledged data must exist, no other files may remain, and resource usage must not have grown.
 */

const { values: options } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, workers: { type: 'string', default: '1' } },
})

const minutes = Number(options.minutes)
const workers = Number(options.workers)

/** Milliseconds between samples. */
const sampleInterval = 5_000

/** The fraction of the run in which caches fill and code is compiled. The two halves of the rest are compared. */
const warmUp = 0.25

const users = 8

/** Milliseconds between two actions of a user. Most are one or two requests. */
const interval = 200

/** The measured resources. `max`, if any, returns the maximum median in the second half for that in the first half. */
const measures: readonly Measure[] = [
  { name: 'heap after GC (MiB)', of: ({ heap }) => heap / 1_048_576, max: (before) => before * 1.05 },
  { name: 'buffers after GC (MiB)', of: ({ buffers }) => buffers / 1_048_576 },
  { name: 'resident (MiB)', of: ({ resident }) => resident / 1_048_576 },
  { name: 'file descriptors', of: ({ descriptors }) => descriptors, max: (before) => before * 1.1 },
  { name: 'active resources', of: ({ resources }) => resources, max: (before) => before * 1.1 },
  {
    name: 'PostgreSQL connections',
    of: ({ connections }) => connections,
    max: () => maxConnections * workers,
  },
  { name: 'event loop lag p99 (ms)', of: ({ lagP99 }) => lagP99 },
]

interface Measure {
  readonly name: string
  readonly of: (sample: Sample) => number
  readonly max?: (before: number) => number
}

const main = async (t: Teardown): Promise<void> => {
  if (!(minutes >= 1)) throw new Error('--minutes takes a number, 1 or more')
  if (!(workers >= 1)) throw new Error('--workers takes a number, 1 or more')
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-soak-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await soak(t, folder, await startPostgres(t))
}

const soak = async (t: Teardown, folder: string, databaseUrl: string): Promise<void> => {
  const environment = { DATABASE_URL: databaseUrl, DATA_DIR: join(folder, 'data') }
  const inspectorPort = await freePort()
  const server = await startServer(t, {
    environment: {
      ...environment,
      ...unreachedLimits,
      LOG_LEVEL: 'info',
      WORKERS: String(workers),
      NODE_OPTIONS: `--inspect=127.0.0.1:${inspectorPort}`,
    },
    folder,
  })
  const sql = createClient({ url: databaseUrl }, { connection: {} })
  t.teardown(() => sql.end())

  console.log(`soak: ${users} users, ${(users * 1_000) / interval} actions per second, ${minutes} min`)
  const behave = everydayActions(server.url)
  const load = await createLoad([server.url], { writers: users, readers: 0, interval, behave })
  const processes = [server.pid, ...(await childrenOf(server.pid))]
  // Node increments the inspector port for each worker.
  const monitored = processes.map((pid, index) => ({ pid, inspectorPort: inspectorPort + index }))
  const { sample, close } = await monitor(monitored, sql)
  const samples: Sample[] = []
  load.resume()
  const end = performance.now() + minutes * 60_000
  while (performance.now() < end) {
    await pause(sampleInterval)
    samples.push(await sample())
  }
  const observation = await load.pause()
  const loadAverages = loadavg().map((figure) => figure.toFixed(1))
  observation.faults.push(...(await load.verify()))
  close()
  const leftovers = await findLeftovers(t, environment)
  await server.stop()

  printSamples(samples)
  printStatuses(observation)
  console.log(`\nLoad average of the last 1, 5 and 15 min: ${loadAverages.join(', ')}`)
  const verdicts = [
    ...judgeGrowth(samples),
    judgeFaults(
      `${load.taskCount()} tasks and their files are as acknowledged, and all responses are as expected`,
      observation,
    ),
    report(
      `no orphaned files or rows${leftovers.length > 0 ? ` (found ${leftovers.join(', ')})` : ''}`,
      leftovers.length === 0,
    ),
  ]
  if (!verdicts.every(Boolean)) throw new Error('Some criteria were not met')
}

/** Describes files without rows, rows without files, and files waiting for deletion. */
const findLeftovers = async (t: Teardown, environment: NodeJS.ProcessEnv): Promise<readonly string[]> => {
  const config = readConfig(environment)
  const db = openDatabase({ url: config.databaseUrl ?? '' })
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  const waiting = async (): Promise<number> => (await countFileDeletions(db)).count
  await eventually('deleted files are removed', async () => (await waiting()) === 0).catch(() => undefined)
  const counts = { ...(await compare(db, storage)), 'files waiting for deletion': await waiting() }
  return Object.entries(counts).flatMap(([kind, count]) => (count > 0 ? [`${count} ${kind}`] : []))
}

const compare = async (db: Database, storage: Storage) => ({
  'files without rows': await count(filesWithoutRows(db, storage.list())),
  'unfinished files without rows': await count(filesWithoutRows(db, storage.listUnfinished())),
  'attachments without files': await count(attachmentsWithoutFiles(db, storage)),
})

const count = async (batches: AsyncIterable<readonly unknown[]>): Promise<number> => {
  let found = 0
  for await (const batch of batches) found += batch.length
  return found
}

const judgeGrowth = (samples: readonly Sample[]): boolean[] => {
  const settled = samples.slice(Math.floor(samples.length * warmUp))
  const middle = Math.floor(settled.length / 2)
  return measures.flatMap(({ name, of, max }) => {
    if (max === undefined) return []
    const before = median(settled.slice(0, middle).map(of))
    const after = median(settled.slice(middle).map(of))
    const allowed = max(before)
    const criterion = `${name}: ${rounded(before)}, then ${rounded(after)}, at most ${rounded(allowed)}`
    return [report(criterion, after <= allowed)]
  })
}

const judgeFaults = (
  criterion: string,
  { statuses, retryReasons, faults: unexpected }: Observation,
): boolean => {
  const faults = [...unexpected, ...[...retryReasons].map(([reason, count]) => `${count} retries: ${reason}`)]
  const shown = faults.slice(0, 20)
  for (const fault of shown) console.log(`  ${fault}`)
  if (faults.length > shown.length) console.log(`  and ${faults.length - shown.length} more`)
  return report(`${criterion} (${totalOf(statuses)} responses)`, faults.length === 0)
}

const printSamples = (samples: readonly Sample[]): void => {
  const rows = 20
  const step = Math.max(1, Math.floor(samples.length / rows))
  const shown = samples.filter((_, index) => index % step === 0 || index === samples.length - 1)
  console.table(
    Object.fromEntries(
      shown.map((sample) => [
        `${Math.round(sample.time / 1_000)} s`,
        Object.fromEntries(measures.map(({ name, of }) => [name, rounded(of(sample))])),
      ]),
    ),
  )
}

const printStatuses = ({ statuses }: Observation): void =>
  console.log(
    [...statuses]
      .map(([response, count]) => `${response}: ${count}`)
      .toSorted()
      .join(', '),
  )

const median = (figures: readonly number[]): number =>
  figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN

const rounded = (figure: number): number => Math.round(figure * 10) / 10

const report = (criterion: string, met: boolean): boolean => {
  console.log(`${criterion}: ${met ? 'met' : 'not met'}`)
  return met
}

await runToEnd('soak', (minutes + 5) * 60_000, main)
