import Fastify from 'fastify'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { refuseWhileClosing } from '../../src/http/connections.ts'
import { listen } from '../../src/http/listen.ts'
import { httpUrl } from '../../src/http/url.ts'

// Every address in 127.0.0.0/8 is one of Linux; `localhost` has two on most machines, and not on all.
const addresses = process.platform === 'linux' ? ['127.0.0.1', '127.0.0.2'] : ['127.0.0.1', '::1']

t.test('all addresses are those of one server, and a stop waits for the requests of each', async (t) => {
  const app = Fastify({
    clientErrorHandler: (_error, socket) => void socket.end('HTTP/1.1 400 Ours\r\n\r\n'),
  })
  refuseWhileClosing(app, 10_000)
  app.post('/', async ({ body }) => body)
  await listen(app, { addresses, port: 0, backlog: 16 })
  const { port } = app.server.address() as AddressInfo

  for (const host of addresses) {
    const socket = connect(port, host)
    socket.end('no HTTP\r\n\r\n')
    t.match(await text(socket), /^HTTP\/1.1 400 Ours/, 'what is no HTTP is answered by it')
  }

  const idle = connect(port, addresses[1])
  await once(idle, 'connect')
  const headers = { 'content-type': 'application/json', 'content-length': 2, expect: '100-continue' }
  const begun = addresses.map((host) => request({ host, port, method: 'POST', agent: false, headers }))
  for (const sending of begun) sending.flushHeaders()
  await Promise.all(begun.map((sending) => once(sending, 'continue')))
  const closing = app.close()
  const statuses = begun.map(async (sending) => {
    sending.end('{}')
    const [response] = (await once(sending, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  })
  t.strictSame(await Promise.all(statuses), [200, 200])
  await closing
  await once(idle.resume(), 'close')
})

t.test('an address that is taken stops the start, whichever it is', async (t) => {
  const taken = Fastify()
  t.teardown(() => taken.close())
  await taken.listen({ host: addresses[1] ?? '', port: 0 })
  const { port } = taken.server.address() as AddressInfo
  const app = Fastify()
  t.teardown(() => app.close())
  await t.rejects(listen(app, { addresses, port, backlog: 16 }), { code: 'EADDRINUSE' })
})

t.test('an IPv6 address is in brackets', async (t) => {
  t.equal(httpUrl('::1', 3000), 'http://[::1]:3000')
  t.equal(httpUrl('localhost', 3000), 'http://localhost:3000')
})
