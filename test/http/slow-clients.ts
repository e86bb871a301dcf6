import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setInterval as every } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import { eventually } from '../fixture/eventually.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { head, openRaw, type RawConnection } from '../fixture/raw.ts'
import { startService } from '../fixture/service.ts'

/** Slow clients: the service waits for a limited time, and holds few resources for them. */

const timeLimits = {
  head: 1_000,
  body: 800,
  answer: 20_000,
  stall: 2_000,
  lameDuck: 0,
  keepAlive: 100,
  readiness: 0,
  checkEvery: 20,
  heartbeat: 15_000,
}
const maxFileBytes = 64 * 1_048_576

const files = await diskStorage(await temporaryFolder(t))
const opened: Readable[] = []
const service = await startService(t, {
  config: { attachmentMaxBytes: maxFileBytes },
  timeLimits,
  storage: {
    ...files,
    async open(key, range) {
      const content = await files.open(key, range)
      opened.push(content)
      return content
    },
  },
})
const { token } = await service.register('ada')

const countConnections = (): Promise<number> =>
  new Promise((resolve, reject) =>
    service.app.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  )

/** Sends a byte every 10 ms until the connection ends, so that it is never idle. */
const drip = async ({ socket }: RawConnection, byte: string): Promise<void> => {
  for await (const _ of every(10)) {
    if (socket.destroyed || !socket.writable) return
    socket.write(byte)
  }
}

/** Resolves when a connection is closed or reset. */
const closing = (socket: Socket): Promise<unknown> =>
  socket.closed ? Promise.resolve() : new Promise((resolve) => socket.once('close', resolve))

const isTimeout = async (t: Test, { socket, answer }: RawConnection): Promise<void> => {
  const { status, headers, body } = await answer()
  t.equal(status, 408)
  t.equal(headers.get('connection'), 'close')
  t.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
  t.match(body, { status: 408, code: 'request_timeout' })
  await closing(socket)
}

const post = (path: string, ...lines: readonly string[]): string =>
  head(`POST ${path} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`, ...lines)

const json = 'Content-Type: application/json'

t.test('408 for a request head that does not end, and the connection is closed', async (t) => {
  const unfinished = 'GET / HTTP/1.1\r\nHost: x\r\nX-Slow: '
  const startWith = async (bytes: string): Promise<RawConnection> => {
    const connection = await openRaw(t, service.url)
    connection.socket.write(bytes)
    return connection
  }
  const untouched = await Promise.all(['', 'GET', unfinished].map(startWith))
  const [busy, second] = await Promise.all([
    startWith(unfinished),
    startWith(`${head('GET /health/live HTTP/1.1', 'Host: x')}${unfinished}`),
  ])
  t.equal((await second.answer()).status, 200)
  await Promise.all([
    ...[...untouched, busy, second].map((connection) => isTimeout(t, connection)),
    drip(busy, 'x'),
    drip(second, 'x'),
  ])
})

t.test('408 for a body that does not end, and nothing is written', async (t) => {
  const starts = [
    `${post('/tasks', json, 'Content-Length: 2000')}{"title":"Slow"`,
    `${post('/tasks', json, 'Transfer-Encoding: chunked')}10\r\n{"title":"Slow"}\r\n`,
    post('/tasks', json, 'Content-Length: 2000'),
    post('/auth/logout', 'Content-Length: 2000'),
    head('POST /auth/login HTTP/1.1', 'Host: x', json, 'Content-Length: 2000'),
  ]
  const connections = await Promise.all(starts.map(() => openRaw(t, service.url)))
  const busy = await openRaw(t, service.url)
  starts.forEach((start, index) => connections[index]?.socket.write(start))
  busy.socket.write(post('/tasks', json, 'Content-Length: 2000'))
  await Promise.all([...[...connections, busy].map((one) => isTimeout(t, one)), drip(busy, ' ')])
  const { body } = await service.expect('listTasks', 200, { token, query: { include_total: true } })
  t.equal(body.total, 0)
})

t.test('a connection is closed if its body continues after the response', async (t) => {
  const refused = {
    401: head('POST /tasks HTTP/1.1', 'Host: x', json, 'Content-Length: 2000'),
    404: post('/nope', json, 'Content-Length: 2000'),
    200: head('GET /health/live HTTP/1.1', 'Host: x', 'Content-Length: 2000'),
  }
  const refuse = async ([status, start]: readonly [string, string]): Promise<void> => {
    const connection = await openRaw(t, service.url)
    connection.socket.write(start)
    t.equal((await connection.answer()).status, Number(status))
    await drip(connection, ' ')
    await t.rejects(connection.answer(), /The connection ended/, 'without a second response')
  }
  await Promise.all(Object.entries(refused).map(refuse))
})

t.test('a slow body that arrives in time is read', async (t) => {
  const connection = await openRaw(t, service.url)
  const body = '{"title":"Not so fast"}'
  connection.socket.write(post('/tasks', json, `Content-Length: ${body.length}`))
  for (const character of body) {
    connection.socket.write(character)
    await new Promise(setImmediate)
  }
  t.equal((await connection.answer()).status, 201)
})

/** Starts to upload a file. `finish` sends the end of the form. */
const beginUpload = async (t: Test, content: Uint8Array) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With a file' } })
  const connection = await openRaw(t, service.url)
  const start = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
  const end = '\r\n--x--\r\n'
  const length = `Content-Length: ${start.length + content.length + end.length}`
  const path = `/tasks/${task.id}/attachments`
  connection.socket.write(post(path, 'Content-Type: multipart/form-data; boundary=x', length))
  connection.socket.write(start)
  connection.socket.write(content)
  return { ...connection, finish: () => connection.socket.write(end) }
}

t.test('an upload', async (t) => {
  t.test('may take longer than other bodies', async (t) => {
    const { finish, answer } = await beginUpload(t, Buffer.from('content'))
    const other = await openRaw(t, service.url)
    other.socket.write(post('/tasks', json, 'Content-Length: 2000'))
    await isTimeout(t, other)
    finish()
    t.equal((await answer()).status, 201)
  })

  t.test('is aborted if it stalls', async (t) => {
    const { socket, answer } = await beginUpload(t, Buffer.from('content'))
    await closing(socket)
    await t.rejects(answer(), /The connection ended/)
  })
})

t.test(
  'a download that the client does not read applies backpressure to the disk, and is aborted',
  async (t) => {
    const { finish, answer } = await beginUpload(t, Buffer.alloc(maxFileBytes))
    finish()
    const { status, headers } = await answer()
    t.equal(status, 201)
    const { socket } = await openRaw(t, service.url)
    socket.pause()
    socket.write(head(`GET ${headers.get('location')} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`))
    await eventually('the file is opened', async () => opened.length === 1)
    const [content] = opened
    await eventually('the file is closed', async () => content?.closed === true)
    // Includes what the socket buffers hold.
    const read = content !== undefined && 'bytesRead' in content ? Number(content.bytesRead) : Infinity
    t.ok(read > 0 && read < maxFileBytes / 4, `${read} bytes were read`)
    await eventually('the connection is closed', async () => (await countConnections()) === 0)
  },
)

t.test('the file of a download is closed when the client disconnects', async (t) => {
  const { finish, answer } = await beginUpload(t, Buffer.alloc(maxFileBytes))
  finish()
  const { headers } = await answer()
  opened.length = 0
  const { socket } = await openRaw(t, service.url)
  socket.write(head(`GET ${headers.get('location')} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`))
  await once(socket, 'data')
  socket.pause()
  t.equal(opened[0]?.closed, false)
  socket.destroy()
  await eventually('the file is closed', async () => opened[0]?.closed === true)
})

t.test('idle connections are closed', async (t) => {
  const before = await Promise.all(Array.from({ length: 100 }, () => openRaw(t, service.url)))
  for (const { socket } of before.slice(50)) socket.write(head('GET /health/live HTTP/1.1', 'Host: x'))
  await Promise.all(before.slice(50).map(async ({ answer }) => t.equal((await answer()).status, 200)))
  await eventually('all connections are closed', async () => (await countConnections()) === 0)
})
