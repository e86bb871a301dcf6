import { createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openDatabase } from '../../src/db/client.ts'
import { DatabaseUnavailable } from '../../src/db/errors.ts'
import { watchEmbedded } from '../../src/db/health.ts'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { createTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { listen } from '../fixture/ports.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Something that takes connections where a database server should be. */
const startServer = async (t: Test, onConnection: (socket: Socket) => void) => {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined))
    onConnection(socket)
  })
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { sockets, url: `postgres://nobody@127.0.0.1:${port}/none` }
}

const deadline = 400

t.test('statements that nobody answers are given up in time, and their connections with them', async (t) => {
  const { url, sockets } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ kind: 'server', url }, deadline)
  t.teardown(() => db.close())
  const begun = performance.now()
  const results = await Promise.allSettled(Array.from({ length: 30 }, () => db.run('select 1', [])))
  t.ok(performance.now() - begun < deadline + 5_000)
  for (const result of results)
    t.ok(result.status === 'rejected' && result.reason instanceof DatabaseUnavailable)
  t.equal(sockets.length, 10)
  await t.rejects(db.run('select 1', []), DatabaseUnavailable)
  t.equal(sockets.length, 11, 'the next statement has a connection of its own')
})

t.test('a server that hangs up at once is not asked without end', async (t) => {
  const { url, sockets } = await startServer(t, (socket) => socket.destroy())
  const db = openDatabase({ kind: 'server', url }, 1_500)
  t.teardown(() => db.close())
  await t.rejects(db.run('select 1', []), DatabaseUnavailable)
  t.ok(sockets.length > 1, 'it is asked again')
  t.ok(sockets.length <= 60, `and ${sockets.length} times in 1.5 s are not many`)
})

t.test('more than so many statements do not wait', async (t) => {
  const { url } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ kind: 'server', url }, deadline)
  const waiting = Array.from({ length: 2_000 }, () => db.run('select 1', []).catch(() => undefined))
  const refused = t.rejects(db.run('select 1', []), /too many/)
  t.equal(
    await Promise.race([refused.then(() => 'refused'), ...waiting]),
    'refused',
    'what cannot wait is told at once',
  )
  await Promise.all(waiting)
  await db.close()
  await eventually('nothing is left over', async () => db.pending() === 0)
})

t.test('a database that has not answered for a long time is told of once', async (t) => {
  const { url } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ kind: 'server', url }, 20)
  t.teardown(() => db.close())
  const told: Error[] = []
  t.teardown(watchEmbedded(db, (error) => told.push(error), { every: 10, mostMissed: 5 }))
  await eventually('it is told of', async () => told.length > 0)
  t.match(told[0]?.message, /does not answer/)
  await pause(100)
  t.equal(told.length, 1)
})

t.test('what changes very many rows outlasts the usual deadlines', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options, deadline)
  t.teardown(() => db.close())
  const service = await startService(t, { db, timeLimits: { ...timeLimits, answer: deadline } })
  const { createTask, createTag } = taskActions(service)
  const admin = await service.register('admin')
  const owner = await service.register('owner')
  const task = await createTask(admin)
  const tags = [
    await createTag(owner, 'a'),
    await createTag(owner, 'b'),
    await createTag(owner, 'c'),
  ] as const
  for (const { id: tag_id } of tags)
    await service.expect('addTaskTag', 204, { token: admin.token, params: { task_id: task.id, tag_id } })
  await db.run(
    `create function take_long() returns trigger language plpgsql as
       'begin perform pg_sleep(${(deadline * 2) / 1_000}); return null; end'`,
    [],
  )
  await db.run(
    'create trigger take_long after delete on task_tags for each row execute function take_long()',
    [],
  )

  const link = { token: admin.token, params: { task_id: task.id, tag_id: tags[0].id } }
  await service.expect('removeTaskTag', 503, link)
  const begun = performance.now()
  await service.expect('deleteTag', 204, { token: admin.token, params: { tag_id: tags[1].id } })
  t.ok(performance.now() - begun > deadline)
  const params = { user_id: owner.id }
  const deleted = service.expect('deleteUser', 204, { token: admin.token, params })
  if (options.kind === 'server') {
    const others = Array.from({ length: 20 }, () => service.expect('getCurrentUser', 200, admin))
    const isFirst = await Promise.race([Promise.all(others).then(() => true), deleted.then(() => false)])
    t.ok(isFirst, 'others do not wait for it')
  }
  await deleted
  const { body } = await service.expect('getTask', 200, { token: admin.token, params: link.params })
  t.strictSame(body.tags, [])
})

const onServer =
  process.env.DATABASE_URL === undefined && 'nothing but its process bounds the embedded database'

t.test(
  'a statement that is run with patience has minutes, and not for ever',
  { skip: onServer },
  async (t) => {
    const { options } = await createTestDatabase(t)
    const db = openDatabase(options)
    t.teardown(() => db.close())
    const limit = async (manner?: 'patient') => (await db.run('show statement_timeout', [], manner))[0]
    t.strictSame(await limit(), { statement_timeout: '8s' })
    t.strictSame(await limit('patient'), { statement_timeout: '4min' })
    await t.rejects(db.run('select 1 / 0', [], 'patient'), /division by zero/)
    t.strictSame(await limit('patient'), { statement_timeout: '4min' }, 'the next one has its turn')
  },
)
