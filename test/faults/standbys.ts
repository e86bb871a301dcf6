import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createPostgres, type RestartableServer } from '../../scripts/run/postgres.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { createClient as createSqlClient, standbysAt } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { openStandbys, type Standbys } from '../../src/db/engine/standbys.ts'
import { eventually } from '../fixture/eventually.ts'
import { readMetrics } from '../fixture/observe.ts'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { runProcess, startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient, type Service, startService } from '../fixture/service.ts'

/** Instances that send reads to a standby. */

t.test('a URL with several hosts is split into one per standby', async (t) => {
  const urls = (url: string) => standbysAt(url).map((standby) => standby.url)
  t.strictSame(urls('postgres://u:p@a:1,b:2/tasks?x=y'), [
    'postgres://u:p@a:1/tasks?x=y',
    'postgres://u:p@b:2/tasks?x=y',
  ])
  t.strictSame(urls('postgresql://a/tasks'), ['postgresql://a/tasks'])
})

const doctor = fileURLToPath(new URL('../../scripts/operate/doctor.ts', import.meta.url))

/** An instance of the service, and its log lines about the standby. */
interface Instance extends Service {
  readonly logged: string[]
  readonly standbys: Standbys
}

const openInstance = async (
  t: Test,
  primaryUrl: string,
  standbyUrl: string,
  secret: Buffer,
): Promise<Instance> => {
  const primary = { kind: 'server', url: primaryUrl, waitsForStandbys: true } as const
  const logged: string[] = []
  const log = {
    info: (message: string) => void logged.push(message),
    warn: (message: string) => void logged.push(message),
  }
  const db = openDatabase(primary)
  t.teardown(() => db.close())
  const migrated = migrate(primary).then(() => undefined)
  const standbys = openStandbys({
    primary,
    standbys: standbysAt(standbyUrl),
    migrated,
    log,
  })
  t.teardown(() => standbys.close())
  await migrated
  return { ...(await startService(t, { db, standbys, secrets: [secret] })), logged, standbys }
}

/** The number of statements that a server has run. */
const statementsOn = async (server: RestartableServer): Promise<number> => {
  const sql = createSqlClient({ kind: 'server', url: server.url })
  const [row] = await sql<[{ n: string }]>`
    select xact_commit::text as n from pg_stat_database where datname = current_database()`
  await sql.end()
  return Number(row.n)
}

t.test('a client reads its own writes on a standby, through any instance', async (t) => {
  const primary = await createPostgres(t)
  await primary.start()
  const standby = await primary.createStandby('standby1')
  await standby.start()
  const sql = createSqlClient({ kind: 'server', url: primary.url })
  const isSynchronous = async (names: string): Promise<void> => {
    await sql.unsafe(`alter system set synchronous_standby_names = '${names}'`)
    await sql`select pg_reload_conf()`
  }
  const runDoctor = async (): Promise<string> => {
    const environment = {
      DATABASE_URL: primary.url,
      DATABASE_READ_URL: standby.url,
      DATA_DIR: await temporaryFolder(t),
    }
    return (await runProcess(environment, doctor)).output
  }
  await t.test('two instances', async (t) => {
    const secret = Buffer.from('a secret of both instances that is long enough')
    const [one, other] = [
      await openInstance(t, primary.url, standby.url, secret),
      await openInstance(t, primary.url, standby.url, secret),
    ]
    const both = [one, other] as const
    const admin = await one.register('ada')
    const { token } = admin
    const isRead = () => both.every(({ logged }) => logged.at(-1)?.startsWith('reading from the standby'))
    const isNotRead = (why: RegExp) => () => both.every(({ logged }) => why.test(logged.at(-1) ?? ''))
    const { body: task } = await one.expect('createTask', 201, {
      token,
      body: { title: 'Never written' },
    })
    /** Writes on one instance and reads on the other. Resolves to the number of stale reads. */
    const writeAndRead = async (times: number): Promise<number> => {
      let stale = 0
      for (let count = 0; count < times; count += 1) {
        const [writing, reading] = count % 2 === 0 ? both : [other, one]
        const params = { task_id: task.id }
        const title = `Title ${Math.random()}`
        await writing.expect('updateTask', 200, { token, params, body: { title } })
        const { body } = await reading.expect('getTask', 200, { token, params })
        if (body.title !== title) stale += 1
      }
      return stale
    }

    await eventually('an asynchronous standby is refused', async () =>
      isNotRead(/standby1 is not a synchronous standby/)(),
    )
    t.equal(await writeAndRead(20), 0, 'reads go to the primary')

    t.match(
      await runDoctor(),
      /FAIL +standbys: 127\.0\.0\.1:\d+ gets no reads: standby1 is not a synchronous standby/,
    )

    await isSynchronous('standby1')
    await eventually('reads go to the standby', async () => isRead())
    t.match(await runDoctor(), /ok +standbys: 1 synchronous/)
    const before = await statementsOn(standby)
    t.equal(await writeAndRead(300), 0)
    await eventually(
      'the standby has run the reads',
      async () => (await statementsOn(standby)) > before + 200,
    )

    await t.test('metrics distinguish both servers', async (t) => {
      const service = await startProcess(t, {
        DATA_DIR: await temporaryFolder(t),
        DATABASE_URL: primary.url,
        DATABASE_READ_URL: standby.url,
        JWT_SECRET: secret.toString(),
        METRICS_PORT: '0',
        METRICS_HOST: '127.0.0.1',
      })
      const { expect } = createClient(service.url)
      await eventually('reads go to the standby', async () =>
        service.output().includes('reading from the standby'),
      )
      let metrics = ''
      const done = (server: string): number =>
        Number(
          new RegExp(
            `^taskwright_database_statement_duration_seconds_count\\{server="${server}",outcome="done"\\} (\\d+)$`,
            'm',
          ).exec(metrics)?.[1],
        )
      // On a busy machine, a standby may not be confirmed in time, and is not used then.
      await eventually('the statements on the standby are counted', async () => {
        await expect('getTask', 200, { token, params: { task_id: task.id } })
        metrics = await readMetrics(service)
        return done('standby') >= 20
      })
      t.ok(done('primary') > 0)
      t.match(metrics, /^taskwright_database_statements_pending\{server="standby"\} 0$/m)
    })

    const { newWorld, requestTo } = await prepareOperations(one, admin)
    const world = await newWorld()
    for (const operation of operations.filter(({ id, method }) => method === 'GET' && id !== 'streamEvents'))
      await one.call(operation.id, await requestTo(operation, { world }))
    const refused = () => one.logged.filter((line) => line.startsWith('only the primary can run'))
    t.strictSame(refused(), [], 'no statement of a GET writes or locks')
    await eventually('a statement that locks runs on the primary', async () => {
      await one.standbys.readingFor(one.deps.db).run('select id from users for update', [])
      return refused().length > 0
    })

    // The standby replays nothing, and commits do not wait for it.
    await whilePaused(standby, async () => {
      await isSynchronous('')
      await eventually('the standby is refused', async () => isNotRead(/not a synchronous standby/)())
      t.equal(await writeAndRead(20), 0, 'reads go to the primary again')
    })
    await isSynchronous('any 1 (standby1)')
    await eventually('a quorum of all standbys is accepted', async () => isRead())
    t.equal(await writeAndRead(20), 0)

    await isSynchronous('any 1 (standby1, standby2)')
    t.equal(await writeAndRead(20), 0, 'even if another member may join the quorum')

    await standby.stop()
    await isSynchronous('')
    t.equal(await writeAndRead(20), 0, 'requests succeed without the standby')
    await standby.start()
    await isSynchronous('standby1')
    await eventually('reads go to the standby again', async () => isRead())
    t.equal(await writeAndRead(20), 0)
  })
  await sql.end()
})

/** Runs `use` while the standby receives the WAL without replaying it. */
const whilePaused = async (standby: RestartableServer, use: () => Promise<void>): Promise<void> => {
  const sql = createSqlClient({ kind: 'server', url: standby.url })
  await sql`select pg_wal_replay_pause()`
  try {
    await use()
  } finally {
    await sql`select pg_wal_replay_resume()`
    await sql.end()
  }
}
