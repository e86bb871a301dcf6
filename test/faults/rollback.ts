import t, { type Test } from 'tap'
import { createLoad, type Load } from '../../scripts/faults/load.ts'
import { createInstance, type Instance } from '../../scripts/faults/cluster/services.ts'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { openDatabaseOf, type ServiceEnvironment } from '../fixture/database.ts'
import { countTasks, createNextVersion } from '../fixture/next-version.ts'
import { temporaryFolder } from '../fixture/process.ts'

/** A release is installed, rolled back, and installed again while clients write and read. No acknowledged write is lost. */

const next = await createNextVersion(await temporaryFolder(t))

/** Restarts one instance after the other in another version, by default the current one. */
const replaceAll = async (t: Test, instances: readonly Instance[], version?: string): Promise<void> => {
  for (const instance of instances) {
    t.equal(await instance.end('SIGTERM'), 0)
    await instance.start(version)
  }
}

/** Acts under load. No acknowledged write may be lost, and no request may fail permanently. */
const underLoad = async (t: Test, load: Load, act: () => Promise<void>): Promise<void> => {
  load.resume()
  await load.untilWritten()
  await act()
  await load.untilWritten()
  const { faults, acknowledged, longestGap } = await load.pause()
  t.strictSame(faults, [])
  t.strictSame(await load.verify(), [])
  t.comment(`${acknowledged} writes; none for ${Math.round(longestGap)} ms`)
}

const rollBack = async (t: Test, environment: ServiceEnvironment, count: number): Promise<void> => {
  const instances = await Promise.all(Array.from({ length: count }, () => createInstance(t, environment)))
  for (const instance of instances) await instance.start()
  const load = await createLoad(instances.map(({ url }) => url))
  t.teardown(() => load.end())

  await t.test('upgrade', (t) => underLoad(t, load, () => replaceAll(t, instances, next)))
  await t.test('rollback', (t) => underLoad(t, load, () => replaceAll(t, instances)))
  for (const instance of instances)
    t.match(instance.output(), 'The database has 1 migrations from a newer version of Taskwright')
  await t.test('upgrade again', (t) => underLoad(t, load, () => replaceAll(t, instances, next)))

  for (const instance of instances) t.equal(await instance.end('SIGTERM'), 0)
  const database = await openDatabaseOf(environment)
  // An open database would keep the process alive after a failure.
  t.teardown(() => database.close())
  const db = openDatabase(database.options)
  const [tasks] = await db.run(countTasks, [], 'once').finally(() => db.close())
  t.equal(tasks?.unseen, 0, 'the older version did not replace the newer routines')
  t.ok(Number(tasks?.created) > 0)
}

t.test('on a PostgreSQL server, with two instances', async (t) =>
  rollBack(
    t,
    { DATABASE_URL: await startPostgres(t, { fast: true }), DATA_DIR: await temporaryFolder(t) },
    2,
  ),
)

t.test('with PostgreSQL of the service', async (t) => rollBack(t, { DATA_DIR: await temporaryFolder(t) }, 1))
