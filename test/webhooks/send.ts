import { type AddressInfo, createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { createAddressRules } from '../../src/webhooks/addresses.ts'
import { createSend, openConnections, type Resolve, SendFailed } from '../../src/webhooks/send.ts'
import { startReceiver } from '../fixture/webhooks.ts'

const never = new AbortController().signal
const body = '{"type":"webhook.test"}'

const sender = (allowed: readonly string[], options: { resolve?: Resolve; time?: number } = {}) => {
  const send = createSend({ rules: createAddressRules(allowed), ...options })
  return (url: string) => send({ url, headers: { 'content-type': 'application/json' }, body }, never)
}
const sendHere = sender(['127.0.0.1'], { time: 500 })

const faultOf = async (sending: Promise<unknown>): Promise<string> =>
  sending.then(
    () => 'none',
    (error: unknown) => (error instanceof SendFailed ? error.fault : String(error)),
  )

/** Starts a TCP server. `behave` is called when a connection receives data. Resolves to its URL. */
const startServer = async (t: Test, behave: (socket: Socket) => void): Promise<string> => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => behave(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** Starts a server that responds with these bytes, and then closes the connection or leaves it open. */
const startRaw = (t: Test, bytes: string | Buffer, closes = true): Promise<string> =>
  startServer(t, (socket) => void (closes ? socket.end(bytes) : socket.write(bytes)))

t.test('sends the body, and reads the beginning of the response', async (t) => {
  const receiver = await startReceiver(t, (response) => {
    response.writeHead(500, { 'retry-after': '7' }).end(`a\0${'b'.repeat(100_000)}`)
  })
  const response = await sendHere(`${receiver.url}?a=b`)
  t.equal(response.status, 500)
  t.equal(response.retryAfter, '7')
  t.equal(response.body, `a\u{fffd}${'b'.repeat(8_190)}`)
  t.equal(receiver.received[0]?.body, body)
  t.match(receiver.received[0]?.headers, { 'content-length': String(body.length), connection: 'close' })
})

t.test('does not follow redirects', async (t) => {
  const target = await startReceiver(t)
  const receiver = await startReceiver(t, (response) => {
    response.writeHead(302, { location: target.url }).end()
  })
  t.equal((await sendHere(receiver.url)).status, 302)
  t.equal(target.received.length, 0)
})

t.test('times out if a receiver stalls', async (t) => {
  const silent = await startReceiver(t, () => undefined)
  t.equal(await faultOf(sendHere(silent.url)), 'timeout')
  const slow = await startReceiver(t, (response) => {
    response.writeHead(200)
    response.write('begun')
  })
  t.match(await sendHere(slow.url), { status: 200, body: 'begun' }, 'a status before the timeout is used')
})

t.test('handles receivers that violate HTTP', async (t) => {
  const short = 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort'
  t.match(await sendHere(await startRaw(t, short)), { status: 200, body: 'short' })
  const long = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlong'
  t.match(await sendHere(await startRaw(t, long)), { status: 200 })
  t.equal(await faultOf(sendHere(await startRaw(t, 'nonsense\r\n\r\n'))), 'response_invalid')
  t.equal(await faultOf(sendHere(await startRaw(t, ''))), 'connection_failed')
  const head = `HTTP/1.1 200 OK\r\n${`X: ${'x'.repeat(1_000)}\r\n`.repeat(100)}\r\n`
  t.equal(await faultOf(sendHere(await startRaw(t, head, false))), 'response_invalid', 'an endless header')
  const https = (await startRaw(t, 'HTTP/1.1 200 OK\r\n\r\n')).replace('http:', 'https:')
  t.equal(await faultOf(sendHere(https)), 'tls_failed')
})

t.test('closes the connection of an endless response', async (t) => {
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const read = { status: 200, body: 'x'.repeat(8_192) }
  const refused = 'response_invalid'
  const endless: Readonly<Record<string, readonly [head: string, again: string, expected: unknown]>> = {
    body: ['HTTP/1.1 200 OK\r\n\r\n', 'x', read],
    'body of chunks': [chunked, `40\r\n${'x'.repeat(64)}\r\n`, read],
    'extension of a chunk': [`${chunked}1;`, 'x', { status: 200, body: '' }],
    trailers: [`${chunked}0\r\n`, 'X: y\r\n', { status: 200, body: '' }],
    header: ['HTTP/1.1 200 OK\r\nX: ', 'x', refused],
    'status line': ['HTTP/1.1 200 ', 'x', refused],
    'informational responses': ['', 'HTTP/1.1 103 Early Hints\r\n\r\n', refused],
  }
  for (const [name, [head, again, expected]] of Object.entries(endless)) {
    const { promise: closed, resolve: close } = Promise.withResolvers<void>()
    const url = await startServer(t, (socket) => {
      const flood = (): void => {
        while (!socket.destroyed && socket.write(again.repeat(1_000)));
      }
      socket.on('drain', flood).on('close', close)
      socket.write(head)
      flood()
    })
    const result = await sendHere(url).catch((error: unknown) => error instanceof SendFailed && error.fault)
    t.match(result, expected, name)
    await closed
  }
})

t.test('uses the status of a truncated response, if it was received', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  t.match(await sendHere(await startRaw(t, `${head}ff\r\nhalf`)), { status: 200, body: 'half' })
  t.equal(await faultOf(sendHere(await startRaw(t, 'HTTP/1.1 200 OK\r\nContent-Le'))), 'connection_failed')
})

t.test('does not decompress', async (t) => {
  const bomb = gzipSync(Buffer.alloc(20_000_000))
  const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`
  const response = await sendHere(await startRaw(t, Buffer.concat([Buffer.from(head), bomb])))
  t.equal(response.body.slice(0, 3), bomb.toString('utf8', 0, 16).slice(0, 3))
  t.ok(response.body.length <= 8_192)
})

t.test('rejects invalid statuses and protocol upgrades', async (t) => {
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  for (const head of [
    `101 Switching\r\n${upgrade}`,
    '101 Switching\r\n\r\n',
    '099 Low\r\n\r\n',
    '000 No\r\n\r\n',
  ])
    t.equal(await faultOf(sendHere(await startRaw(t, `HTTP/1.1 ${head}`, false))), 'response_invalid', head)
})

t.test('does not take a second response as the response to the next message', async (t) => {
  const empty = 'Content-Length: 0\r\n\r\n'
  const url = await startRaw(t, `HTTP/1.1 500 No\r\n${empty}HTTP/1.1 200 OK\r\n${empty}`, false)
  const send = createSend({ rules: createAddressRules(['127.0.0.1']) })
  const connections = openConnections()
  t.teardown(() => connections.close())
  for (let count = 0; count < 2; count += 1)
    t.equal((await send({ url, headers: {}, body }, never, connections)).status, 500)
})

t.test('reports a refused connection', async (t) => {
  t.equal(await faultOf(sendHere('http://127.0.0.1:9/')), 'connection_failed')
})

t.test('does not connect to addresses that are not allowed', async (t) => {
  const receiver = await startReceiver(t)
  const { port } = new URL(receiver.url)
  const send = sender([], { resolve: async () => [{ address: '127.0.0.1', family: 4 }] })
  for (const host of ['127.0.0.1', 'localhost', 'hooks.example.com', '[::ffff:127.0.0.1]', '0.0.0.0'])
    t.equal(await faultOf(send(`http://${host}:${port}/`)), 'address_refused', host)
  t.equal(receiver.received.length, 0)
})

t.test('resolves names for each connection, and checks the address', async (t) => {
  const allowed = await startReceiver(t, undefined, '127.0.0.2')
  const { port } = new URL(allowed.url)
  const answers = ['127.0.0.2', '127.0.0.1', '127.0.0.2']
  let lookups = 0
  const resolve: Resolve = async () => [{ address: answers[(lookups += 1) - 1] ?? '', family: 4 }]
  const send = sender(['127.0.0.2'], { resolve })
  const url = `http://rebinding.example.com:${port}/`
  t.equal((await send(url)).status, 204)
  t.equal(await faultOf(send(url)), 'address_refused')
  t.equal((await send(url)).status, 204)
  t.equal(lookups, 3, 'one lookup per connection')
  t.equal(allowed.received[0]?.headers.host, `rebinding.example.com:${port}`)
})

t.test('reuses a connection to an address that was checked', async (t) => {
  const ports: unknown[] = []
  const receiver = await startReceiver(t, (response) => {
    ports.push(response.socket?.remotePort)
    response.writeHead(200).end('thanks')
  })
  const answers = ['127.0.0.1', '127.0.0.2', '127.0.0.2']
  let lookups = 0
  const resolve: Resolve = async () => [{ address: answers[(lookups += 1) - 1] ?? '', family: 4 }]
  const send = createSend({ rules: createAddressRules(['127.0.0.1']), resolve })
  const url = `http://rebinding.example.com:${new URL(receiver.url).port}/`
  const connections = openConnections()
  t.teardown(() => connections.close())
  const message = { url, headers: {}, body }
  for (let count = 0; count < 3; count += 1) t.equal((await send(message, never, connections)).status, 200)
  t.equal(lookups, 1)
  t.equal(new Set(ports).size, 1)
  connections.close()
  t.equal(await faultOf(send(message, never, connections)), 'address_refused', 'a new connection is checked')
})

t.test('opens a new connection if the receiver has closed the kept-alive one', async (t) => {
  let requests = 0
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('HTTP/1.1 204 No Content\r\n\r\n')
      // As if the receiver closed the connection while the next request was in transit.
      socket.once('data', () => socket.resetAndDestroy())
      requests += 1
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const send = createSend({ rules: createAddressRules(['127.0.0.1']) })
  const connections = openConnections()
  t.teardown(() => connections.close())
  for (let count = 0; count < 2; count += 1)
    t.equal((await send({ url, headers: {}, body }, never, connections)).status, 204)
  t.equal(requests, 2)
})

t.test('uses only the allowed addresses of a name', async (t) => {
  const receiver = await startReceiver(t, undefined, '127.0.0.2')
  const { port } = new URL(receiver.url)
  const resolve: Resolve = async () => [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
    { address: '127.0.0.2', family: 4 },
  ]
  const send = sender(['127.0.0.2'], { resolve })
  t.equal((await send(`http://several.example.com:${port}/`)).status, 204)
})

t.test('refuses a name that does not resolve', async (t) => {
  const resolve: Resolve = () => Promise.reject(new Error('ENOTFOUND'))
  t.equal(await faultOf(sender([], { resolve })('http://nowhere.example.com/')), 'address_refused')
})

t.test('stops when its signal is aborted', async (t) => {
  const silent = await startReceiver(t, () => undefined)
  const stop = new AbortController()
  const send = createSend({ rules: createAddressRules(['127.0.0.1']) })
  const sending = send({ url: silent.url, headers: {}, body }, stop.signal)
  await silent.expect(1)
  stop.abort()
  await t.rejects(sending, { name: 'AbortError' })
})
