import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import manifest from '../../package.json' with { type: 'json' }
import t from 'tap'
import { eventually } from '../fixture/eventually.ts'
import { runProcess, type ServiceProcess, startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient, fileForm } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { beginTask } from '../fixture/unfinished-request.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { SchemaUnknown } from '../../src/db/engine/errors.ts'
import {
  createEmptyDatabase,
  dropOnServer,
  environmentFor,
  environmentOfEarlierSchema,
} from '../fixture/database.ts'

const serverUrl = process.env.DATABASE_URL

/** Each test continues with the process of the one before, or starts one with the data that it left. */
const environment = await environmentFor(t, false)
const first = await startProcess(t, { ...environment, LOG_LEVEL: 'info' })
const firstStart = first.output()
const { token } = await createClient(first.url).register('ada')
const { body: kept } = await createClient(first.url).expect('createTask', 201, {
  token,
  body: { title: 'Kept' },
})

/** The titles of all tasks, newest first, read with the token from the first process. */
const titlesOf = async ({ url }: ServiceProcess): Promise<readonly string[]> => {
  const { body } = await createClient(url).expect('listTasks', 200, { token })
  return body.items.map(({ title }) => title)
}

t.test('the start and a missing file are logged', async (t) => {
  const lines = firstStart.split('\n')
  for (const line of lines) t.match(line, /^taskwright: /, 'text, and no JSON')
  t.match(lines.at(-1), /^taskwright: ready and listening; /)
  t.match(firstStart, /^taskwright: migrating the database schema$/m)
  t.match(firstStart, `version ${manifest.version} on Node.js ${process.versions.node}\n`)
  const { expect } = createClient(first.url)
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With a file' } })
  const upload = { token, params: { task_id: task.id }, body: fileForm('content') }
  const { body: attachment } = await expect('addTaskAttachment', 201, upload)
  const [file = ''] = await filesBelow(join(environment.DATA_DIR, 'attachments'))
  await rm(file)
  await expect('downloadAttachment', 410, { token, params: { attach_id: attachment.id } })
  await eventually('the key of the file is logged', async () => first.output().includes(basename(file)))
})

t.test('a running request is finished before the process stops', async (t) => {
  const finish = await beginTask(first.url, token, 'Begun before the stop')
  const ended = first.end('SIGTERM')
  t.equal(await finish(), 201)
  t.equal(await ended, 0, 'SIGTERM is a clean stop')
})

t.test('no acknowledged write is lost by a stop, a new secret or a kill', async (t) => {
  const secret = await readFile(join(environment.DATA_DIR, 'jwt-secret'), 'utf8')
  const JWT_SECRET = `a new secret in front of the one of the file, ${secret}`
  const second = await startProcess(t, { ...environment, JWT_SECRET })
  t.notMatch(second.output(), /migrating/, 'only the first time')
  const client = createClient(second.url)
  const found = await client.expect('getTask', 200, { token, params: { task_id: kept.id } })
  t.strictSame(found.body, kept, 'a task and the token survive a stop and a new active secret')
  const titles = ['Begun before the stop', 'With a file', 'Kept']
  t.strictSame(await titlesOf(second), titles)

  await client.expect('createTask', 201, { token, body: { title: 'Before the kill' } })
  t.equal(await second.end('SIGKILL'), null)
  const third = await startProcess(t, { ...environment, JWT_SECRET })
  t.strictSame(await titlesOf(third), ['Before the kill', ...titles], 'all tasks survive a kill')

  await t.test('a signal sent twice, as npm does on Ctrl-C, is one clean stop', async (t) => {
    const ended = third.end('SIGINT')
    while (!third.output().includes('stopping')) await setTimeout(1)
    await third.end('SIGINT')
    t.equal(await ended, 0)
    t.match(third.output(), /stopped$/)
  })
})

t.test('the service outlives its watchdog', async (t) => {
  // Code that a thread runs before its own: only that of the watchdog has beats.
  const failing = `import { workerData } from 'node:worker_threads'
    if (workerData?.beats) throw new Error('out of memory')`
  const service = await startProcess(t, {
    ...(await environmentFor(t, false)),
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(failing)}`,
  })
  await eventually('the failure is logged', async () => service.output().includes('The watchdog has failed'))
  await createClient(service.url).expect('getReadiness', 200)
})

t.test('--version prints the version, and starts nothing', async (t) => {
  const { code, output } = await runProcess({ DATA_DIR: '/proc/nope', PORT: 'eighty' }, undefined, [
    '--version',
  ])
  t.equal(output, `taskwright ${manifest.version}`)
  t.equal(code, 0)
})

t.test('an invalid configuration prevents the start', async (t) => {
  // A folder that cannot be created, for which Node's recursive mkdir never returns.
  const DATA_DIR = '/proc/nope'
  const { code, output } = await runProcess({ DATA_DIR, PORT: 'eighty', JWT_SECRET: 'short-secret' })
  const unit = await readFile(new URL('../../deploy/systemd/taskwright.service', import.meta.url), 'utf8')
  t.match(unit, `\nRestartPreventExitStatus=${code}\n`, 'systemd does not repeat it')
  t.match(output, /"npm run doctor"/)
  t.match(output, /PORT/)
  t.match(output, /JWT_SECRET/)
  t.notMatch(output, /short-secret/, 'the secret is not printed')
})

t.test('a HOST that is not this machine prevents the start before anything is created', async (t) => {
  for (const [environment, message] of [
    [{ HOST: 'nowhere.invalid' }, /HOST nowhere\.invalid cannot be resolved/],
    [{ HOST: '192.0.2.1' }, /HOST 192\.0\.2\.1 is not an address of this machine/],
    [
      { METRICS_HOST: '192.0.2.1', METRICS_PORT: '0' },
      /METRICS_HOST 192\.0\.2\.1 is not an address of this machine/,
    ],
  ] as const) {
    const DATA_DIR = await temporaryFolder(t)
    const { code, output } = await runProcess({ DATA_DIR, ...environment })
    // The name may be unknown for the moment only.
    t.ok(code === 78 || environment.HOST === 'nowhere.invalid', String(code))
    t.match(output, message)
    t.equal(output.split('\n').length, 1, 'in one line')
    t.notOk(existsSync(join(DATA_DIR, 'postgres')))
  }
})

t.test('a schema that cannot be migrated prevents the start, and is the only error', async (t) => {
  const environment = await environmentOfEarlierSchema(t)
  const { code, output } = await runProcess(environment)
  t.equal(code, 78)
  t.match(output, new SchemaUnknown().message)
  t.notMatch(output, 'background job')
})

t.test('the service waits for an unreachable database', async (t) => {
  const url = 'postgres://nobody:hidden@127.0.0.1:1/none'
  const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url }
  const service = await startProcess(t, environment, { until: 'listening' })
  const { call, expect } = createClient(service.url)
  await expect('getLiveness', 200)
  await expect('getReadiness', 503)
  const { status, headers } = await call('login', { body: { email: 'ada@example.com', password: 'x' } })
  t.equal(status, 503)
  t.ok(Number(headers.get('retry-after')) >= 1)
  await eventually('the reason is logged', async () => /ECONNREFUSED.*retrying/.test(service.output()))
  t.notMatch(service.output(), /hidden/, 'the password is not printed')
  t.equal(await service.end('SIGTERM'), 0, 'it can be stopped meanwhile')
})

t.test('several instances wait for one database and migrate it together', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const JWT_SECRET = 'one secret for all instances of this service'
  const later = `${new URL(options.url).pathname.slice(1)}_later`
  const url = options.url.replace(/[^/]+$/, later)
  const starting = Array.from({ length: 5 }, async () =>
    startProcess(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url, JWT_SECRET }),
  )
  const sql = createSqlClient(options)
  await sql.unsafe(`create database ${later}`)
  t.teardown(async () => {
    await sql.end()
    await dropOnServer(options.url, later)
  })
  const instances = await Promise.all(starting)
  const [one, other] = instances
  if (one === undefined || other === undefined) throw new Error('There are no instances')
  const ada = await createClient(one.url).register('ada')
  const { body } = await createClient(other.url).expect('getCurrentUser', 200, { token: ada.token })
  t.equal(body.id, ada.id, 'they serve the same data')
  t.strictSame(await Promise.all(instances.map((instance) => instance.end('SIGTERM'))), [0, 0, 0, 0, 0])
})
