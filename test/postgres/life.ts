import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, readlink, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { findBinaries } from '../../src/postgres/binaries.ts'
import {
  connectionOf,
  librariesFolder,
  pidFile,
  postgresFolder,
  readPidFile,
} from '../../src/postgres/cluster.ts'
import { createLauncher, lockFile } from '../../src/postgres/launch.ts'
import { serverSettings, settingArguments } from '../../src/postgres/settings.ts'
import { copyTemplate } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import {
  folderState,
  runProcess,
  type ServiceProcess,
  startProcess,
  temporaryFolder,
} from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'
import { beginAttachment, beginTask } from '../fixture/unfinished-request.ts'

/** PostgreSQL as a child of the service, without DATABASE_URL. */

const admin = fileURLToPath(new URL('../../scripts/operate/admin.ts', import.meta.url))

const newFolder = async (t: Test): Promise<string> => {
  const folder = await temporaryFolder(t)
  await copyTemplate(folder)
  return folder
}

const pidOf = async (dataDir: string): Promise<number> => (await readPidFile(dataDir))?.pid ?? 0

/** Resolves when a process has ended. */
const untilGone = (pid: number): Promise<void> =>
  eventually(`process ${pid} has ended`, () =>
    readlink(`/proc/${pid}/cwd`).then(
      () => false,
      () => true,
    ),
  )

const untilReady = ({ url }: ServiceProcess): Promise<void> =>
  eventually('the service is ready', async () => (await fetch(`${url}/health/ready`)).status === 200)

/** Starts PostgreSQL as an earlier process of the service would have left it. */
const leaveBehind = async (t: Test, dataDir: string): Promise<ChildProcess> => {
  const libraries = librariesFolder(dataDir)
  const launcher = await createLauncher(await findBinaries({ postgresBin: null, librariesFolder: libraries }))
  const settings = settingArguments(serverSettings({ workers: 1, port: null }))
  const args = ['-D', postgresFolder(dataDir), ...settings]
  const [file = '', ...rest] = launcher.lockedCommand(lockFile(dataDir), 'postgres', args)
  const child = spawn(file, rest, { env: launcher.environment, detached: true, stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  await eventually('it is ready', async () =>
    (await readFile(pidFile(dataDir), 'utf8').catch(() => '')).includes('ready'),
  )
  return child
}

t.test('a new database: what the service may do in it', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  const service = await startProcess(t, { DATA_DIR })
  t.match(service.output(), /creating a database/)
  await createClient(service.url).register('ada')

  const folder = postgresFolder(DATA_DIR)
  t.equal((await stat(join(folder, 'taskwright-password'))).mode & 0o777, 0o600)
  const connection = await connectionOf(DATA_DIR)
  const sql = createSqlClient(connection)
  t.teardown(() => sql.end())
  const [role] = await sql`
    select rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls as has_more,
      current_setting('data_checksums') as checksums, datlocprovider, datlocale, pg_get_userbyid(datdba) as owner
    from pg_roles cross join pg_database where rolname = current_user and datname = current_database()`
  t.strictSame(
    { ...role },
    { has_more: false, checksums: 'on', datlocprovider: 'b', datlocale: 'C.UTF-8', owner: 'taskwright' },
  )
  for (const statement of [
    `copy (select 1) to program 'true'`,
    `copy users from '/etc/passwd'`,
    'create role other',
  ])
    await t.rejects(sql.unsafe(statement), { code: '42501' }, statement)

  const refused = async (url: string, code: string) => {
    const other = createSqlClient({ ...connection, url })
    await t.rejects(other`select`, { code }, url)
    await other.end()
  }
  await refused(connection.url.replace('taskwright:', 'postgres:'), '28000')
  await refused(connection.url.replace(/\/taskwright$/, '/template1'), '28000')
  await refused(connection.url.replace(/:[^:@]*@/, ':wrong@'), '28P01')
  t.equal(await service.end('SIGTERM'), 0)
  t.equal(await readPidFile(DATA_DIR), null, 'it was stopped, and not killed')
})

t.test('one folder, through kills and what they leave', async (t) => {
  const DATA_DIR = await newFolder(t)
  // Kubernetes adds permissions for a group.
  await chmod(postgresFolder(DATA_DIR), 0o2770)
  const first = await startProcess(t, { DATA_DIR })
  t.equal((await stat(postgresFolder(DATA_DIR))).mode & 0o777, 0o700)
  const { token } = await createClient(first.url).register('ada')
  const create = ({ url }: ServiceProcess, title: string) =>
    createClient(url).expect('createTask', 201, { token, body: { title } })
  const titles: string[] = []
  const keep = async (service: ServiceProcess, title: string): Promise<void> => {
    await create(service, title)
    titles.unshift(title)
    const { body } = await createClient(service.url).expect('listTasks', 200, { token })
    t.strictSame(
      body.items.map((task) => task.title),
      titles,
    )
  }
  await keep(first, 'first')

  await t.test('PostgreSQL is killed: 503 until it runs again', async () => {
    const pid = await pidOf(DATA_DIR)
    process.kill(pid, 'SIGKILL')
    await eventually('it is started again', async () => ![0, pid].includes(await pidOf(DATA_DIR)))
    await untilReady(first)
    await eventually('the log says why', async () => /PostgreSQL has ended \(SIGKILL/.test(first.output()))
    await keep(first, 'after a kill of PostgreSQL')
  })

  await t.test('a session is killed: PostgreSQL recovers by itself', async (t) => {
    const sql = createSqlClient(await connectionOf(DATA_DIR))
    const [session] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
    const timesReady = () => first.output().split('ready to accept connections').length
    const before = timesReady()
    process.kill(session?.pid ?? 0, 'SIGKILL')
    await sql.end()
    await eventually('it accepts connections again', async () => timesReady() > before)
    t.match(first.output(), 'terminated by signal 9')
    await untilReady(first)
    await keep(first, 'after a kill of a session')
  })

  await t.test('commands use it beside the service', async (t) => {
    const { code, output } = await runProcess({ DATA_DIR }, admin, ['user', 'list'])
    t.equal(code, 0, output)
    t.match(output, /ada/)
  })

  await t.test('a second service cannot use the folder', async (t) => {
    const { code, output } = await runProcess({ DATA_DIR })
    t.equal(code, 1)
    t.match(output, /is in use by another Taskwright process/)
    await keep(first, 'after a second service')
  })

  await t.test('the service is killed: PostgreSQL ends too', async () => {
    const pid = await pidOf(DATA_DIR)
    await first.end('SIGKILL')
    await untilGone(pid)
  })

  const second = await startProcess(t, { DATA_DIR, WORKERS: '2' })
  await keep(second, 'with two workers')

  await t.test('both are killed', async () => {
    const pid = await pidOf(DATA_DIR)
    process.kill(pid, 'SIGKILL')
    await second.end('SIGKILL')
    await untilGone(pid)
  })

  await t.test('without a service, commands start it and stop it again', async (t) => {
    const { code, output } = await runProcess({ DATA_DIR }, admin, ['user', 'list'])
    t.equal(code, 0, output)
    t.match(output, /ada/)
    t.equal(await readPidFile(DATA_DIR), null)
  })

  await t.test('one that was left behind is ended, and not used', async (t) => {
    const left = await leaveBehind(t, DATA_DIR)
    const ended = once(left, 'exit')
    const third = await startProcess(t, { DATA_DIR })
    t.match(third.output(), /PostgreSQL of an earlier process of the service still runs; ending it/)
    t.strictSame(await ended, [0, null], 'by a shutdown')
    t.not(await pidOf(DATA_DIR), left.pid)
    await keep(third, 'after one that was left behind')
    t.equal(await third.end('SIGTERM'), 0)
  })

  await t.test('an id that now belongs to another process is not taken for it', async (t) => {
    await writeFile(pidFile(DATA_DIR), `${process.pid}\n${postgresFolder(DATA_DIR)}\n1\n5432\n`)
    const fourth = await startProcess(t, { DATA_DIR })
    await keep(fourth, 'after a reused id')
    t.equal(await fourth.end('SIGTERM'), 0)
  })

  await t.test('one that cannot be reached, as in another container, keeps the folder', async (t) => {
    const holder = spawn('flock', [lockFile(DATA_DIR), 'sleep', '600'], { detached: true, stdio: 'ignore' })
    t.teardown(() => process.kill(-(holder.pid ?? 0), 'SIGKILL'))
    await eventually('it holds the lock', async () => {
      const tried = spawn('flock', ['--nonblock', lockFile(DATA_DIR), 'true'])
      const [code] = (await once(tried, 'exit')) as [number]
      return code !== 0
    })
    const { code, output } = await runProcess({ DATA_DIR })
    t.equal(code, 1)
    t.match(output, /is in use by another Taskwright process/)
  })
})

t.test('Ctrl+C in a terminal: an upload that runs is finished, then PostgreSQL stops', async (t) => {
  const DATA_DIR = await newFolder(t)
  const service = await startProcess(t, { DATA_DIR }, { ownGroup: true })
  const { expect, register } = createClient(service.url)
  const { token } = await register('ada')
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With a file' } })
  const pid = await pidOf(DATA_DIR)
  const content = 'x'.repeat(1_000_000)
  const finish = await beginAttachment(service.url, token, { taskId: task.id, content })
  // A terminal sends it to all processes of its foreground group.
  service.signalGroup('SIGINT')
  await eventually('the service is stopping', async () => service.output().includes('stopping after'))
  t.equal(await finish(), 201)
  t.equal(await service.exited, 0)
  await untilGone(pid)

  const later = createClient((await startProcess(t, { DATA_DIR })).url)
  const { body } = await later.expect('listTaskAttachments', 200, { token, params: { task_id: task.id } })
  const downloads = await Promise.all(
    body.items.map(({ id }) => later.expect('downloadAttachment', 200, { token, params: { attach_id: id } })),
  )
  t.strictSame(
    downloads.map(({ body }) => Buffer.from(body as unknown as Uint8Array).toString()),
    [content],
    'the file is there after the next start',
  )
})

t.test('a second signal ends both at once', async (t) => {
  const DATA_DIR = await newFolder(t)
  const service = await startProcess(t, { DATA_DIR })
  const { token } = await createClient(service.url).register('ada')
  const pid = await pidOf(DATA_DIR)
  // Keeps the first stop from ending.
  await beginTask(service.url, token, 'Never sent')
  const ended = service.end('SIGTERM')
  await eventually('the service is stopping', async () => service.output().includes('stopping after'))
  const repeating = setInterval(() => void service.end('SIGTERM'), 100)
  t.teardown(() => clearInterval(repeating))
  t.equal(await ended, 130)
  await untilGone(pid)
})

t.test('a path that is too long for a socket', async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'd'.repeat(120))
  await mkdir(DATA_DIR)
  await copyTemplate(DATA_DIR)
  const service = await startProcess(t, { DATA_DIR })
  await createClient(service.url).register('ada')
  const { code, output } = await runProcess({ DATA_DIR }, admin, ['user', 'list'])
  t.equal(code, 0, output)
  t.match(output, /ada/)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('what it cannot use is refused, and stays as it is', async (t) => {
  const refused = async (folder: string, files: Readonly<Record<string, string>>, reason: RegExp) => {
    const DATA_DIR = await temporaryFolder(t)
    await mkdir(join(DATA_DIR, folder))
    for (const [name, content] of Object.entries(files))
      await writeFile(join(DATA_DIR, folder, name), content)
    const before = await folderState(join(DATA_DIR, folder))
    for (const [program, ...args] of [[undefined], [admin, 'user', 'list']] as const) {
      const { code, output } = await runProcess({ DATA_DIR }, program, args)
      t.equal(code, program === undefined ? 78 : 1, output)
      t.match(output, reason)
    }
    t.strictSame(await folderState(join(DATA_DIR, folder)), before)
  }
  await refused(
    'postgres',
    { PG_VERSION: '18\n' },
    /is a database of Taskwright 0\.1 or 0\.2.*"npm run carry-over"/,
  )
  await refused(
    'postgresql',
    { PG_VERSION: '17\n', 'taskwright-password': '' },
    /is a database of PostgreSQL 17/,
  )
  await refused('postgresql', { PG_VERSION: '18\n' }, /no database of this service/)
})

t.test('where it cannot run, one sentence says what to do', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  const { code, output } = await runProcess({ DATA_DIR, POSTGRES_BIN: DATA_DIR })
  t.equal(code, 78)
  t.match(
    output,
    /^taskwright: PostgreSQL in \S+ does not run on this system \(.*Set POSTGRES_BIN to .*or DATABASE_URL/m,
  )
})
