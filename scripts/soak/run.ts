import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readConfig } from '../../src/config/config.ts'
import { type Database, maxConnections, openDatabase } from '../../src/db/engine/client.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { countFileDeletions } from '../../src/db/files.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from '../../src/jobs/inventory.ts'
import { openStorage } from '../../src/storage/open.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { createEmptyDatabase } from '../../test/fixture/database.ts'
import { eventually } from '../../test/fixture/eventually.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { service, startServer } from '../bench/processes.ts'
import { withPostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { startLoad, type Tally } from './load.ts'
import { type Sample, watch } from './watch.ts'

/**
 * `npm run soak -- --minutes 10 --workers 1`: whether the service keeps running. People use all of it at a rate that leaves it time,
 * while what it holds is measured; in the end everything that was acknowledged must be there, nothing else may be left,
 * and what it holds must not have grown. On the server of DATABASE_URL, or one that it starts.
 */

const { values: given } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, workers: { type: 'string', default: '1' } },
})

const minutes = Number(given.minutes)
const workers = Number(given.workers)

/** Milliseconds from one look at the service to the next. */
const sampleEvery = 5_000

/** The part of the time in which caches fill and code is compiled. Of the rest, two halves are compared. */
const warmUp = 0.25

const load = { people: 8, rate: 40 }

/** What is measured, in which unit, and what its median may be in the second half by that of the first, if that is judged. */
const measures: readonly Measure[] = [
  { name: 'heap after GC (MiB)', of: ({ heap }) => heap / 1_048_576, most: (before) => before * 1.05 },
  { name: 'buffers after GC (MiB)', of: ({ buffers }) => buffers / 1_048_576 },
  { name: 'resident (MiB)', of: ({ resident }) => resident / 1_048_576 },
  { name: 'file descriptors', of: ({ descriptors }) => descriptors, most: (before) => before * 1.1 },
  { name: 'active resources', of: ({ resources }) => resources, most: (before) => before * 1.1 },
  {
    name: 'PostgreSQL connections',
    of: ({ connections }) => connections,
    most: () => maxConnections.server * workers,
  },
  { name: 'event loop lag p99 (ms)', of: ({ lagP99 }) => lagP99 },
]

interface Measure {
  readonly name: string
  readonly of: (sample: Sample) => number
  readonly most?: (before: number) => number
}

const main = async (t: Teardown): Promise<void> => {
  if (!(minutes >= 1)) throw new Error('--minutes takes a number, 1 or more')
  if (!(workers >= 1)) throw new Error('--workers takes a number, 1 or more')
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-soak-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const url = process.env.DATABASE_URL
  if (url === undefined) return withPostgres((databaseUrl) => soak(t, folder, databaseUrl))
  await soak(t, folder, (await createEmptyDatabase(t, url)).options.url)
}

const soak = async (t: Teardown, folder: string, databaseUrl: string): Promise<void> => {
  const environment = { DATABASE_URL: databaseUrl, DATA_DIR: join(folder, 'data') }
  const inspectorPort = await freePort()
  const server = await startServer(t, {
    program: service,
    environment: {
      ...environment,
      ...limits,
      WORKERS: String(workers),
      NODE_OPTIONS: `--inspect=127.0.0.1:${inspectorPort}`,
    },
    core: null,
    folder,
  })
  const sql = createClient({ kind: 'server', url: databaseUrl }, { connection: {} })
  t.teardown(() => sql.end())

  console.log(`soak: ${load.people} users, ${load.rate} actions per second, ${minutes} min`)
  const { tally, stop, verify } = await startLoad(server.url, load)
  const processes = [server.pid, ...(await workersOf(server.pid))]
  // Node gives each worker the next port.
  const watched = processes.map((pid, index) => ({ pid, inspectorPort: inspectorPort + index }))
  const { sample, close } = await watch(watched, sql)
  const samples: Sample[] = []
  const end = performance.now() + minutes * 60_000
  while (performance.now() < end) {
    await pause(sampleEvery)
    samples.push(await sample())
  }
  await stop()
  const busy = loadavg().map((figure) => figure.toFixed(1))
  const looked = await verify()
  close()
  const left = await leftovers(t, environment)
  await server.stop()

  printSamples(samples)
  printStatuses(tally())
  console.log(`\nLoad of the machine in the last 1, 5 and 15 min: ${busy.join(', ')}`)
  const verdicts = [
    ...judgeGrowth(samples),
    judge(
      `${looked} tasks and files match what was acknowledged, and all responses are as expected`,
      tally(),
    ),
    tell(`nothing is left over${left.length > 0 ? ` (found ${left.join(', ')})` : ''}`, left.length === 0),
  ]
  if (!verdicts.every(Boolean)) throw new Error('Some criteria were not met')
}

/** The processes that a primary has started, the oldest first. */
const workersOf = async (pid: number): Promise<readonly number[]> =>
  (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).split(' ').filter(Boolean).map(Number)

/** Limits that count and are never reached. */
const limits = {
  LOG_LEVEL: 'info',
  RATE_LIMIT: 'on',
  ...Object.fromEntries(
    ['SIGN_IN', 'REFRESH', 'API', 'UPLOAD', 'ANONYMOUS'].map((name) => [`RATE_LIMIT_${name}`, '1000000000']),
  ),
}

/** Files without rows, rows without files, and what still waits for its removal, in words. */
const leftovers = async (t: Teardown, environment: NodeJS.ProcessEnv): Promise<readonly string[]> => {
  const config = readConfig(environment)
  const db = openDatabase({ kind: 'server', url: config.databaseUrl ?? '' })
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  const waiting = async (): Promise<number> => (await countFileDeletions(db)).count
  await eventually('deleted files are removed', async () => (await waiting()) === 0).catch(() => undefined)
  const counts = { ...(await compare(db, storage)), 'files waiting for deletion': await waiting() }
  return Object.entries(counts).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []))
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
  return measures.flatMap(({ name, of, most }) => {
    if (most === undefined) return []
    const before = median(settled.slice(0, middle).map(of))
    const after = median(settled.slice(middle).map(of))
    const allowed = most(before)
    const what = `${name}: ${rounded(before)}, then ${rounded(after)} of at most ${rounded(allowed)}`
    return [tell(what, after <= allowed)]
  })
}

const judge = (what: string, { requests, faults }: Tally): boolean => {
  const shown = faults.slice(0, 20)
  for (const fault of shown) console.log(`  ${fault}`)
  if (faults.length > shown.length) console.log(`  and ${faults.length - shown.length} more`)
  return tell(`${what} (${requests} requests)`, faults.length === 0)
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

const printStatuses = ({ statuses }: Tally): void =>
  console.log(
    [...statuses]
      .map(([what, times]) => `${what}: ${times}`)
      .toSorted()
      .join(', '),
  )

const median = (figures: readonly number[]): number =>
  figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN

const rounded = (figure: number): number => Math.round(figure * 10) / 10

const tell = (what: string, met: boolean): boolean => {
  console.log(`${what}: ${met ? 'met' : 'not met'}`)
  return met
}

await runToEnd('soak', (minutes + 5) * 60_000, main)
