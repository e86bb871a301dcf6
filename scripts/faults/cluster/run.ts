import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '../../../src/db/engine/connection.ts'
import { createRedis } from '../../../test/fixture/redis.ts'
import { hasCommands } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'
import { temporaryRoot } from '../../run/temporary-root.ts'
import { startReplicatedDatabase } from './database.ts'
import { type Cluster, faults } from './faults.ts'
import { createLoad, type Observation, totalOf } from '../load.ts'
import { createInstances } from './services.ts'

/**
 * Three instances of the service on three PostgreSQL nodes with Patroni must not lose or duplicate data when a part of the cluster
 * fails:
 *
 *     node scripts/run/s3.ts -- node scripts/faults/cluster/run.ts [--direct] [fault...]
 *
 * With --direct, instances find the primary without HAProxy. Attachments are in the bucket of TEST_STORAGE_URL.
 */

/** Milliseconds. */
const deadline = 9 * 60_000

const instanceCount = 3

const startCluster = async (t: Teardown, storageUrl: string, isDirect: boolean): Promise<Cluster> => {
  const folder = await mkdtemp(join(temporaryRoot(), 'taskwright-cluster-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const database = await startReplicatedDatabase(t, { folder, isDirect })
  const redis = await createRedis(t)
  await redis.start()
  const instances = await createInstances(t, instanceCount, folder, {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    STORAGE_URL: storageUrl,
  })
  await Promise.all(instances.map((instance) => instance.start()))
  const load = await createLoad(instances.map(({ url }) => url))
  t.teardown(() => load.end())
  return { database, redis, instances, load, folder }
}

/** The row of a fault in the table. */
interface Row {
  readonly 'writes acknowledged': number
  readonly 'lost, duplicated or different': number
  readonly 'longest time without a write (s)': string
  readonly 'recovered after (s)': string
  readonly retries: number
  readonly 'reasons for retries': string
}

const inSeconds = (milliseconds: number): string => (milliseconds / 1_000).toFixed(1)

const maxShown = 10

/** Causes a fault under load, and compares the data with what was acknowledged. */
const tryFault = async (
  name: string,
  cluster: Cluster,
): Promise<{ readonly row: Row; readonly passed: boolean }> => {
  const { load, database } = cluster
  load.resume()
  await load.untilWritten()
  const startedAt = performance.now()
  await faults[name]?.(cluster)
  const recoveryTime = performance.now() - startedAt
  const observation = await load.pause()
  const inconsistencies = [
    ...(await load.verify()),
    ...(await verifyTaskCount(database.url, load.taskCount())),
  ]
  for (const text of [...observation.faults, ...inconsistencies].slice(0, maxShown)) console.log(`  ${text}`)
  return {
    row: rowOf(observation, inconsistencies.length, recoveryTime),
    passed: inconsistencies.length === 0 && observation.faults.length === 0,
  }
}

const rowOf = (
  { acknowledged, longestGap, retryReasons }: Observation,
  inconsistencies: number,
  recoveryTime: number,
): Row => ({
  'writes acknowledged': acknowledged,
  'lost, duplicated or different': inconsistencies,
  'longest time without a write (s)': inSeconds(longestGap),
  'recovered after (s)': inSeconds(recoveryTime),
  retries: totalOf(retryReasons),
  'reasons for retries': [...retryReasons]
    .map(([reason, count]) => `${reason}: ${count}`)
    .toSorted()
    .join(', '),
})

/** Counts tasks and titles in the database, without the API. Every task has a unique title. */
const verifyTaskCount = async (url: string, expected: number): Promise<readonly string[]> => {
  const sql = createClient({ url })
  try {
    const [row] = await sql<{ tasks: number; titles: number }[]>`
      select count(*)::int as tasks, count(distinct title)::int as titles from tasks`
    const { tasks = 0, titles = 0 } = row ?? {}
    return tasks === expected && titles === expected
      ? []
      : [`the database has ${tasks} tasks with ${titles} titles; ${expected} were acknowledged`]
  } finally {
    await sql.end()
  }
}

await runToEnd('cluster', deadline, async (t) => {
  const { values: options, positionals } = parseArgs({
    options: { direct: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const names = positionals.length > 0 ? positionals : Object.keys(faults)
  const unknown = names.find((name) => faults[name] === undefined)
  if (unknown !== undefined)
    throw new Error(`Unknown fault ${unknown}. Expected one of: ${Object.keys(faults).join(', ')}`)
  if (!hasCommands(['etcd', 'patroni', 'patronictl', 'haproxy', 'redis-server'])) return
  const storageUrl = process.env.TEST_STORAGE_URL
  if (storageUrl === undefined) throw new Error('TEST_STORAGE_URL is not set: run it with scripts/run/s3.ts')
  const startedAt = performance.now()
  const cluster = await startCluster(t, storageUrl, options.direct)
  console.log(`cluster: started in ${inSeconds(performance.now() - startedAt)} s`)
  const rows: Record<string, Row> = {}
  const failed: string[] = []
  for (const name of names) {
    const { row, passed } = await tryFault(name, cluster)
    console.log(`cluster: ${name}: ${passed ? 'passed' : 'FAILED'}`)
    rows[name] = row
    if (!passed) failed.push(name)
  }
  console.table(rows)
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`)
})
