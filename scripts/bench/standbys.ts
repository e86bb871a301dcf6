import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient as openDatabase } from '../../src/db/engine/connection.ts'
import { createClient } from '../../test/fixture/service.ts'
import { type RestartableServer, withRestartablePostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { cpuTimeOfTree, service, startServer } from './processes.ts'

/**
 * `npm run bench:standbys`: the processor time of the primary per read with zero, one and two standbys, and the number of stale reads
 * among 5,000 reads after a write through another instance.
 */

/** Milliseconds. */
const deadline = 900_000

const reads = 2_000
const pairs = 5_000

const main = (t: Teardown): Promise<void> =>
  withRestartablePostgres(async (primary) => {
    await primary.start()
    await measure(t, primary, [])
    await primary.withStandby('standby1', async (first) => {
      await first.start()
      await measure(t, primary, [first])
      await primary.withStandby('standby2', async (second) => {
        await second.start()
        await measure(t, primary, [first, second])
      })
    })
  })

const measure = async (
  t: Teardown,
  primary: RestartableServer,
  standbys: readonly RestartableServer[],
): Promise<void> => {
  const sql = openDatabase({ kind: 'server', url: primary.url })
  const names = standbys.map((_, index) => `standby${index + 1}`)
  await sql.unsafe(
    `alter system set synchronous_standby_names = '${names.length > 0 ? `${names.length} (${names.join(', ')})` : ''}'`,
  )
  const [{ postmaster }] = await sql<[{ postmaster: string }]>`
    select split_part(pg_read_file('postmaster.pid'), e'\n', 1) as postmaster from (select pg_reload_conf()) reloaded`
  await sql.end()
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const hosts = standbys.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const environment = {
    DATABASE_URL: primary.url,
    ...(hosts !== '' && { DATABASE_READ_URL: primary.url.replace(`127.0.0.1:${primary.port}`, hosts) }),
    DATA_DIR: join(folder, 'data'),
    JWT_SECRET: 'the same secret in both instances and long enough',
    RATE_LIMIT: 'off',
    LOG_LEVEL: 'error',
  }
  const servers = [
    await startServer(t, { program: service, environment, core: null, folder }),
    await startServer(t, { program: service, environment, core: null, folder }),
  ]
  const [one, other] = servers.map(({ url }) => createClient(url, () => undefined))
  if (one === undefined || other === undefined) throw new Error('There are no instances')
  const { token } = await one.register(`user${randomUUID().slice(0, 8)}`)
  const { body: task } = await one.expect('createTask', 201, { token, body: { title: 'A task' } })
  const params = { task_id: task.id }
  const read = (client: typeof one) => client.expect('getTask', 200, { token, params })
  for (let count = 0; count < 300; count += 1) await read(count % 2 === 0 ? one : other)
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  const before = await cpuTimeOfTree(Number(postmaster))
  for (let request = 0; request < reads; request += 1) await read(request % 2 === 0 ? one : other)
  const perRead = ((await cpuTimeOfTree(Number(postmaster))) - before) / reads
  let stale = 0
  for (let pair = 0; pair < pairs; pair += 1) {
    const [writing, reading] = pair % 2 === 0 ? [one, other] : [other, one]
    const title = `Title ${pair}`
    await writing.expect('updateTask', 200, { token, params, body: { title } })
    const { body } = await read(reading)
    if (body.title !== title) stale += 1
  }
  console.log(
    `${standbys.length} standbys: ${perRead.toFixed(3)} ms of processor time of the primary per read; ${stale} of ${pairs} reads after a write were stale`,
  )
  for (const server of servers) await server.stop()
}

await runToEnd('bench:standbys', deadline, main)
