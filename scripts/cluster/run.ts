import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '../../src/db/engine/connection.ts'
import { createRedis } from '../../test/fixture/redis.ts'
import { isInstalled } from '../commands.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { temporaryRoot } from '../temporary-root.ts'
import { startReplicatedDatabase } from './database.ts'
import { type Cluster, faults } from './faults.ts'
import { findPatroniBinaries } from './node.ts'
import { createLoad, type Observation } from './load.ts'
import { createInstances } from './services.ts'

/**
 * `npm run test:cluster [-- [--direct] <fault>...]`: whether three instances of the service, on three PostgreSQL nodes under Patroni, lose or
 * double anything when a part of it fails. With --direct, they find the primary without HAProxy. `scripts/s3.ts` starts it, with a
 * server for the attachments.
 */

/** Milliseconds for all of it. */
const deadline = 9 * 60_000

const instanceCount = 3

/** What is not here, of what it takes. */
const findMissing = (): string | null => {
  const programs = ['etcd', 'patroni', 'patronictl', 'haproxy', 'redis-server']
  const missing = programs.find((name) => !isInstalled(name))
  if (missing !== undefined) return missing
  try {
    findPatroniBinaries()
    return null
  } catch {
    return 'PostgreSQL'
  }
}

const startCluster = async (t: Teardown, storageUrl: string, isDirect: boolean): Promise<Cluster> => {
  const folder = await mkdtemp(join(temporaryRoot(), 'taskwright-cluster-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const database = await startReplicatedDatabase(t, { folder, isDirect })
  const redis = await createRedis(t)
  await redis.start()
  const shared = {
    databaseUrl: database.url,
    readUrl: database.readUrl,
    redisUrl: redis.url,
    storageUrl,
    folder,
  }
  const instances = await createInstances(t, instanceCount, shared)
  await Promise.all(instances.map((instance) => instance.start()))
  const load = await createLoad(instances.map(({ url }) => url))
  t.teardown(() => load.end())
  return { database, redis, instances, load, folder }
}

/** The row of a fault in the table. */
interface Row {
  readonly 'writes acknowledged': number
  readonly 'lost, doubled or different': number
  readonly 'longest time without a write (s)': string
  readonly 'whole again after (s)': string
  readonly retries: number
  readonly 'refused with': string
}

const inSeconds = (milliseconds: number): string => (milliseconds / 1_000).toFixed(1)

const maxShown = 10

/** Lets a fault happen under load, and compares what is there with what was acknowledged. */
const tryFault = async (
  name: string,
  cluster: Cluster,
): Promise<{ readonly row: Row; readonly isRight: boolean }> => {
  const { load, database } = cluster
  load.resume()
  await load.untilWritten()
  const begun = performance.now()
  await faults[name]?.(cluster)
  const recovered = performance.now() - begun
  const observation = await load.pause()
  const wrong = [...(await load.verify()), ...(await countedWrongly(database.url, load.taskCount()))]
  for (const text of [...observation.faults, ...wrong].slice(0, maxShown)) console.log(`  ${text}`)
  return {
    row: rowOf(observation, wrong.length, recovered),
    isRight: wrong.length === 0 && observation.faults.length === 0,
  }
}

const rowOf = (
  { acknowledged, longestGap, retries, refusals }: Observation,
  wrong: number,
  recovered: number,
): Row => ({
  'writes acknowledged': acknowledged,
  'lost, doubled or different': wrong,
  'longest time without a write (s)': inSeconds(longestGap),
  'whole again after (s)': inSeconds(recovered),
  retries,
  'refused with': [...refusals]
    .map(([what, times]) => `${what}: ${times}`)
    .toSorted()
    .join(', '),
})

/** What the tables say, whatever the API does: every task has a title of its own. */
const countedWrongly = async (url: string, expected: number): Promise<readonly string[]> => {
  const sql = createClient({ kind: 'server', url })
  try {
    const [row] = await sql<{ tasks: number; titles: number }[]>`
      select count(*)::int as tasks, count(distinct title)::int as titles from tasks`
    const { tasks = 0, titles = 0 } = row ?? {}
    return tasks === expected && titles === expected
      ? []
      : [`the database has ${tasks} tasks with ${titles} titles, acknowledged were ${expected}`]
  } finally {
    await sql.end()
  }
}

await runToEnd('cluster', deadline, async (t) => {
  const { values: given, positionals } = parseArgs({
    options: { direct: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const names = positionals.length > 0 ? positionals : Object.keys(faults)
  const unknown = names.find((name) => faults[name] === undefined)
  if (unknown !== undefined)
    throw new Error(`${unknown} is no fault; there are ${Object.keys(faults).join(', ')}`)
  const missing = findMissing()
  if (missing !== null) {
    console.log(`cluster: skipped: no ${missing}`)
    return
  }
  const storageUrl = process.env.TEST_STORAGE_URL
  if (storageUrl === undefined) throw new Error('Run it by npm run test:cluster, which starts an S3 server')
  const begun = performance.now()
  const cluster = await startCluster(t, storageUrl, given.direct)
  console.log(`cluster: started in ${inSeconds(performance.now() - begun)} s`)
  const rows: Record<string, Row> = {}
  const failed: string[] = []
  for (const name of names) {
    const { row, isRight } = await tryFault(name, cluster)
    console.log(`cluster: ${name}: ${isRight ? 'nothing lost' : 'FAILED'}`)
    rows[name] = row
    if (!isRight) failed.push(name)
  }
  console.table(rows)
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`)
})
