import { eventually } from '../../../test/fixture/eventually.ts'
import { createNextVersion } from '../../../test/fixture/next-version.ts'
import type { RedisServer } from '../../../test/fixture/redis.ts'
import type { ReplicatedDatabase, Restartable } from './database.ts'
import type { Load } from '../load.ts'
import type { Node } from './node.ts'
import type { Instance } from './services.ts'

/** The parts of a cluster that faults affect. */
export interface Cluster {
  readonly database: ReplicatedDatabase
  readonly redis: RedisServer
  readonly instances: readonly Instance[]
  readonly load: Load
  /** The folder of the run. */
  readonly folder: string
}

/** Causes a fault. Resolves when the cluster has recovered. */
type Fault = (cluster: Cluster) => Promise<void>

/** Makes the primary fail, and restores it after the failover. */
const losePrimary =
  (fail: (node: Node) => Promise<void>, restore: (node: Node) => Promise<void>): Fault =>
  async ({ database, load }) => {
    const primary = await database.node('leader')
    await fail(primary)
    await database.untilAnother('leader', primary)
    await load.untilWritten()
    await restore(primary)
    await database.untilHealthy()
    await load.untilWritten()
  }

const switchOver: Fault = async ({ database, load }) => {
  const [primary, standby] = [await database.node('leader'), await database.node('sync_standby')]
  await database.control('switchover', '--leader', primary.name, '--candidate', standby.name, '--force')
  await database.untilAnother('leader', primary)
  await database.untilHealthy()
  await load.untilWritten()
}

const loseStandby: Fault = async ({ database, load }) => {
  const standby = await database.node('sync_standby')
  await standby.kill()
  await database.untilAnother('sync_standby', standby)
  await load.untilWritten()
  await standby.start()
  await database.untilHealthy()
}

const restartRedis: Fault = async ({ redis, load }) => {
  await redis.kill()
  await load.untilWritten()
  await redis.start()
  await load.untilWritten()
}

const restart = async ({ stop, start }: Restartable): Promise<void> => {
  await stop()
  await start()
}

const restartProxy: Fault = async ({ database, load }) => {
  await restart(database.proxy)
  await load.untilWritten()
}

const endEach =
  (signal: 'SIGTERM' | 'SIGKILL'): Fault =>
  async ({ instances, load }) => {
    for (const instance of instances) {
      const code = await instance.end(signal)
      if (signal === 'SIGTERM' && code !== 0) throw new Error(`An instance exited with ${code}`)
      await load.untilWritten()
      await instance.start()
    }
    await load.untilWritten()
  }

/** A rolling upgrade of the instances to a version with a newer schema, then a rollback of the first instance. */
const upgrade: Fault = async ({ instances, folder, load }) => {
  const program = await createNextVersion(folder)
  const replace = async (instance: Instance, version?: string): Promise<void> => {
    await instance.end('SIGTERM')
    await instance.start(version)
    await load.untilWritten()
  }
  for (const instance of instances) await replace(instance, program)
  const [first] = instances as [Instance]
  await replace(first)
  if (!first.output().includes('from a newer version'))
    throw new Error('The old version did not detect the newer schema')
}

/** Isolates the primary, and waits until it demotes itself. */
const isolate = async (node: Node): Promise<void> => {
  node.isolate()
  await eventually(
    'the isolated primary demotes itself',
    async () => (await node.role()) === 'replica',
    demotionDeadline,
  )
}

/** Milliseconds. The lease of a primary is 20 s. */
const demotionDeadline = 30_000

/** All faults by name, in order. */
export const faults: Readonly<Record<string, Fault>> = {
  kill: losePrimary(
    (node) => node.kill(),
    (node) => node.start(),
  ),
  freeze: losePrimary(
    (node) => node.freeze(),
    (node) => node.thaw(),
  ),
  partition: losePrimary(isolate, async (node) => node.reconnect()),
  switchover: switchOver,
  standby: loseStandby,
  redis: restartRedis,
  haproxy: restartProxy,
  stop: endEach('SIGTERM'),
  crash: endEach('SIGKILL'),
  upgrade,
}
