import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { head, openRaw, type RawConnection } from '../fixture/raw.ts'
import { type Account, startService } from '../fixture/service.ts'

/** Limits on what one caller can use of the process, so that other callers are served. */

const { db } = await openTestDatabase(t)

/** Reads of tasks, and writes: those that are running, and the most that ran concurrently. */
const statements = { running: 0, max: 0 }
/** Blocks these statements until it resolves. */
let held: PromiseWithResolvers<void> | null = null

const requestLimit = 30
const counted = async <T>(work: () => Promise<T>): Promise<T> => {
  statements.running += 1
  statements.max = Math.max(statements.max, statements.running)
  try {
    await held?.promise
    return await work()
  } finally {
    statements.running -= 1
  }
}

const service = await startService(t, {
  db: {
    ...db,
    run: (...parameters) =>
      /from "?tasks/.test(parameters[0]) ? counted(() => db.run(...parameters)) : db.run(...parameters),
    transaction: (...parameters) => counted(() => db.transaction(...parameters)),
  },
  requestLimit,
  unreadLimit: 1_048_576,
  backgroundDb: db,
})
await service.register('admin')
const member = await service.register('member')
const other = await service.register('other')

const get = (path: string, { token }: Pick<Account, 'token'>): string =>
  head(`GET ${path} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`)

const post = (title: string): string => {
  const body = JSON.stringify({ title })
  return `${head(
    'POST /tasks HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${member.token}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  )}${body}`
}

const answersOf = async ({ answer }: RawConnection, count: number) => {
  const answers: Awaited<ReturnType<RawConnection['answer']>>[] = []
  while (answers.length < count) answers.push(await answer())
  return answers
}

t.test('pipelined requests of a connection run one at a time', async (t) => {
  const connection = await openRaw(t, service.url)
  await service.expect('getCurrentUser', 200, { token: member.token })
  statements.max = 0
  const titles = Array.from({ length: 20 }, (_, index) => `Task ${index}`)
  connection.socket.write(titles.map(post).join(''))
  const answers = await answersOf(connection, titles.length)
  t.strictSame(
    answers.map(({ status, body }) => [status, (body as { readonly title: string }).title]),
    titles.map((title) => [201, title]),
    'responses arrive in order',
  )
  t.equal(statements.max, 1)
})

t.test(
  'a connection with too many pipelined requests is closed, and waiting requests are not executed',
  async (t) => {
    held = Promise.withResolvers()
    const { socket, answer } = await openRaw(t, service.url)
    const [first = '', ...others] = Array.from({ length: 200 }, (_, index) => post(`Flood ${index}`))
    socket.write(first)
    await eventually('the first request is running', async () => statements.running === 1)
    socket.write(others.join(''))
    await t.rejects(answer(), /The connection ended/)
    held.resolve()
    held = null
    const count = async (): Promise<number> => {
      const query = { filter: 'title:"Flood"', limit: 200 }
      return (await service.expect('listTasks', 200, { token: member.token, query })).body.items.length
    }
    await eventually('the first request has finished', async () => (await count()) === 1)
    await eventually('no statement is running', async () => statements.running === 0)
    t.equal(await count(), 1)
  },
)

/** A list of more than half a mebibyte. */
const query = { limit: 10, filter: 'title:"Large"' }
const listRequest = get(`/tasks?${new URLSearchParams({ ...query, limit: '10' }).toString()}`, member)

const createLargeTasks = async (): Promise<void> => {
  const body = { title: 'Large', description: 'd'.repeat(65_536) }
  for (let count = 0; count < 10; count += 1)
    await service.expect('createTask', 201, { token: member.token, body })
}

const isServed = async (t: Test): Promise<void> => {
  for (let request = 0; request < 5; request += 1)
    t.equal((await service.call('listTasks', { token: other.token })).status, 200)
}

t.test('429 for a caller that does not read its responses; other callers are served', async (t) => {
  await createLargeTasks()
  const list = () => service.call('listTasks', { token: member.token, query })
  t.equal((await list()).status, 200)

  // Socket buffers hold some mebibytes, so each connection requests several.
  const perConnection = 16
  const connections = await Promise.all(Array.from({ length: 3 }, () => openRaw(t, service.url)))
  for (const { socket } of connections) {
    socket.pause()
    socket.write(listRequest.repeat(perConnection))
  }
  let refused = await list()
  await eventually('the caller gets 429', async () => (refused = await list()).status === 429)
  t.match(refused.body, { code: 'too_many_requests', detail: /You have not read the responses/ })
  t.equal(refused.headers.get('retry-after'), '1')
  t.notOk(refused.headers.has('etag') || refused.headers.has('link'), 'a problem has neither')
  await isServed(t)

  const [reading, ...others] = connections
  for (const { socket } of others) socket.destroy()
  reading?.socket.resume()
  const answers = reading === undefined ? [] : await answersOf(reading, perConnection)
  t.equal(answers[0]?.status, 200, 'responses that were sent arrive')
  await eventually('the caller is served again', async () => (await list()).status === 200)
})

t.test('a connection whose response is not read is closed', async (t) => {
  const impatient = await startService(t, {
    db,
    timeLimits: { ...timeLimits, stall: 2_000 },
  })
  const accepted = once(impatient.app.server, 'connection') as Promise<[Socket]>
  const { socket } = await openRaw(t, impatient.url)
  const [ours] = await accepted
  socket.pause()
  socket.write(listRequest.repeat(16))
  await eventually('the connection is closed', async () => ours.destroyed)
})

t.test('429 for a caller with too many concurrent requests; other callers are served', async (t) => {
  held = Promise.withResolvers()
  const running = Array.from({ length: requestLimit }, () =>
    service.call('listTasks', { token: member.token }),
  )
  const first = await Promise.race(running)
  t.equal(first.status, 429)
  t.match(first.body, { code: 'too_many_requests', detail: /Too many of your requests are in progress/ })
  t.equal((await service.call('getCurrentUser', { token: other.token })).status, 200)
  held.resolve()
  held = null
  const statuses = (await Promise.all(running)).map(({ status }) => status)
  t.ok(statuses.filter((status) => status === 200).length >= requestLimit / 2)
})
