import { request } from 'node:http'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { eventually } from './fixture/eventually.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'
import { filesBelow } from './fixture/storage.ts'
import { createClient as createSqlClient } from '../src/db/connection.ts'
import { copyTemplate, createEmptyDatabase, environmentFor } from './fixture/database.ts'

const serverUrl = process.env.DATABASE_URL

t.test('a stop, a new secret and a kill lose nothing that was acknowledged', async (t) => {
  const environment = await environmentFor(t, false)
  const first = await startProcess(t, environment)
  const ada = await createClient(first.url).register('ada')
  const client = createClient(first.url)
  const { body: kept } = await client.expect('createTask', 201, { token: ada.token, body: { title: 'kept' } })
  t.match(first.output(), /schema/, 'it says what it is doing')
  t.equal(await first.end('SIGTERM'), 0, 'SIGTERM ends it cleanly')

  const secret = await readFile(join(environment.DATA_DIR, 'jwt-secret'), 'utf8')
  const JWT_SECRET = `a new secret in front of the one of the file, ${secret}`
  const second = await startProcess(t, { ...environment, JWT_SECRET })
  const again = createClient(second.url)
  const found = await again.expect('getTask', 200, { token: ada.token, params: { task_id: kept.id } })
  t.strictSame(found.body, kept, 'the task and the token survive a stop, though another secret signs')
  const { body: late } = await again.expect('createTask', 201, { token: ada.token, body: { title: 'late' } })
  t.equal(await second.end('SIGKILL'), null)

  const third = await startProcess(t, { ...environment, JWT_SECRET })
  const after = await createClient(third.url).expect('listTasks', 200, { token: ada.token })
  t.strictSame(
    after.body.items.map(({ id }) => id),
    [late.id, kept.id],
    'both tasks survive a kill',
  )
  t.equal(await third.end('SIGINT'), 0, 'SIGINT ends it cleanly')
})

t.test('a request that has begun is finished before the process stops', async (t) => {
  const service = await startProcess(t, await environmentFor(t))
  const client = createClient(service.url)
  const ada = await client.register('ada')
  const body = JSON.stringify({ title: 'begun before the stop' })
  const unfinished = request(`${service.url}/tasks`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ada.token}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      expect: '100-continue',
    },
  })
  unfinished.flushHeaders()
  // The server has taken the request in when it asks for the body.
  await once(unfinished, 'continue')
  unfinished.write(body.slice(0, 5))
  const ended = service.end('SIGTERM')
  const answered = once(unfinished, 'response')
  unfinished.end(body.slice(5))
  const [response] = (await answered) as [{ statusCode: number; resume(): void }]
  response.resume()
  t.equal(response.statusCode, 201)
  t.equal(await ended, 0)
})

t.test('a signal that comes twice at once, as npm passes on Ctrl-C, is one clean stop', async (t) => {
  const service = await startProcess(t, await environmentFor(t))
  const ended = service.end('SIGINT')
  while (!service.output().includes('stopping')) await setTimeout(1)
  await service.end('SIGINT')
  t.equal(await ended, 0)
  t.match(service.output(), /stopped$/)
})

t.test('a file that the storage has lost is in the log', async (t) => {
  const environment = await environmentFor(t)
  const service = await startProcess(t, environment)
  const client = createClient(service.url)
  const { token } = await client.register('ada')
  const { body: task } = await client.expect('createTask', 201, { token, body: { title: 'With a file' } })
  const { body: attachment } = await client.expect('addTaskAttachment', 201, {
    token,
    params: { task_id: task.id },
    body: fileForm('content'),
  })
  const [file = ''] = await filesBelow(join(environment.DATA_DIR, 'attachments'))
  await rm(file)
  await client.expect('downloadAttachment', 410, { token, params: { attach_id: attachment.id } })
  t.equal(await service.end('SIGTERM'), 0)
  t.match(service.output(), basename(file), 'by its key')
})

t.test('bad configuration stops the start and says what would be right', async (t) => {
  const { code, output } = await runProcess({ PORT: 'eighty', JWT_SECRET: 'short-secret' })
  t.equal(code, 1)
  t.match(output, /PORT/)
  t.match(output, /JWT_SECRET/)
  t.notMatch(output, /short-secret/, 'a secret is not printed')
})

t.test('a database that is not there is waited for', async (t) => {
  const url = 'postgres://nobody:hidden@127.0.0.1:1/none'
  const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url, LOG_LEVEL: 'info' }
  const service = await startProcess(t, environment, { until: 'listening' })
  const { call, expect } = createClient(service.url)
  await expect('getLiveness', 200)
  await expect('getReadiness', 503)
  const { status, headers } = await call('login', { body: { email: 'ada@example.com', password: 'x' } })
  t.equal(status, 503)
  t.ok(Number(headers.get('retry-after')) >= 1)
  await eventually('it says what it waits for', async () => /ECONNREFUSED.*waiting/.test(service.output()))
  t.notMatch(service.output(), /hidden/, 'the password is not printed')
  t.equal(await service.end('SIGTERM'), 0, 'and can be stopped meanwhile')
})

t.test('one process for one folder of the embedded database', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  const first = await startProcess(t, { DATA_DIR })
  const { code, output } = await runProcess({ DATA_DIR })
  t.equal(code, 1)
  t.match(output, /in use/)
  t.equal(await first.end('SIGTERM'), 0)
})

const skip = serverUrl === undefined && 'the embedded database has one process by nature'

t.test('several instances wait for one database and migrate it together', { skip }, async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const JWT_SECRET = 'one secret for all instances of this service'
  const later = `${new URL(options.url).pathname.slice(1)}_later`
  const url = options.url.replace(/[^/]+$/, later)
  const starting = Array.from({ length: 5 }, async () =>
    startProcess(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url, JWT_SECRET }),
  )
  const sql = createSqlClient(options, { max: 1 })
  await sql.unsafe(`create database ${later}`)
  t.teardown(async () => {
    await sql.unsafe(`drop database ${later} with (force)`)
    await sql.end()
  })
  const instances = await Promise.all(starting)
  const [one, other] = instances
  if (one === undefined || other === undefined) throw new Error('Five were started')
  const ada = await createClient(one.url).register('ada')
  const { body } = await createClient(other.url).expect('getCurrentUser', 200, { token: ada.token })
  t.equal(body.id, ada.id, 'they serve the same data')
  t.strictSame(await Promise.all(instances.map((instance) => instance.end('SIGTERM'))), [0, 0, 0, 0, 0])
})
