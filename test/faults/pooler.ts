import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { findPooler, type Pooler, setForRole, startPooler } from '../fixture/pooler.ts'
import { createOrdinaryUser, startPostgres } from '../../scripts/run/postgres.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { createEmptyDatabase } from '../fixture/database.ts'
import { openStream } from '../fixture/event-stream.ts'
import { eventually, untilRefused } from '../fixture/eventually.ts'
import { runProcess, startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** Two instances behind PgBouncer in transaction mode, which delivers no notifications. */

const doctor = fileURLToPath(new URL('../../scripts/operate/doctor.ts', import.meta.url))
const pooler = findPooler()
const skip = typeof pooler === 'string' && pooler

const tryPooler = async (t: Test, pooler: Pooler, superuserUrl: string): Promise<void> => {
  const serverUrl = await createOrdinaryUser(superuserUrl)
  const { options } = await createEmptyDatabase(t, serverUrl)
  const pooled = new URL(await startPooler(t, pooler, options.url))
  const environment = {
    DATABASE_URL: pooled.href,
    JWT_SECRET: 'a secret of both instances that is long enough',
    LOG_LEVEL: 'warn',
  }
  const runDoctor = async () => runProcess({ ...environment, DATA_DIR: await temporaryFolder(t) }, doctor)

  const unset = await runDoctor()
  t.match(unset.output, /FAIL +database: .*pooler ignores the statement_timeout.*'2000ms'/)
  await setForRole(serverUrl)
  // The pooler's connections were opened before the setting.
  const sql = createSqlClient({ url: superuserUrl })
  t.teardown(() => sql.end())
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${pooled.pathname.slice(1)}`
  await eventually('the doctor passes', async () => (await runDoctor()).code === 0)
  t.match((await runDoctor()).output, /ok +database: .*delivers no notifications.*up to 5 seconds/)

  const start = async () => startProcess(t, { ...environment, DATA_DIR: await temporaryFolder(t) })
  const [one, other] = await Promise.all([start(), start()])
  const [here, there] = [createClient(one.url), createClient(other.url)]
  for (const instance of [one, other])
    await eventually('missing notifications are logged', async () =>
      instance.output().includes('delivers no notifications'),
    )

  await t.test('a sign-out reaches the other instance when its cache expires', async (t) => {
    const { token } = await here.register('ada')
    await there.expect('getCurrentUser', 200, { token })
    await here.expect('logout', 204, { token })
    const loggedOut = Date.now()
    const { accepted } = await untilRefused(
      async () => (await there.call('getCurrentUser', { token })).status,
    )
    t.ok(accepted < loggedOut + 5_000, `${accepted - loggedOut} ms`)
  })

  await t.test('a stream gets the events of the other instance', async (t) => {
    const { token } = await here.register('bob')
    const stream = await openStream(t, other, { token })
    const { body: task } = await here.expect('createTask', 201, { token, body: { title: 'Streamed' } })
    t.equal((await stream.next()).data.task_id, task.id)
  })
}

t.test('two instances behind a transaction pooler', { skip }, async (t) => {
  if (typeof pooler !== 'string') await tryPooler(t, pooler, await startPostgres(t))
})
