import Fastify from 'fastify'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { listenAddress } from '../../src/http/listen.ts'
import { httpUrl } from '../../src/http/url.ts'

t.test('localhost listens on 127.0.0.1 only', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/', async () => 'here')
  await app.listen({ host: listenAddress('localhost'), port: 0 })
  t.equal(app.addresses().length, 1)
  const { address, port } = app.server.address() as AddressInfo
  t.equal(address, '127.0.0.1')
  for (const host of ['localhost', '127.0.0.1'])
    t.equal(await (await fetch(httpUrl(host, port))).text(), 'here', host)
})

t.test('other hosts are used unchanged', async (t) => {
  for (const host of ['0.0.0.0', '::', '127.0.0.2', 'tasks.example.com']) t.equal(listenAddress(host), host)
})

t.test('URLs have IPv6 addresses in brackets', async (t) => {
  t.equal(httpUrl('::1', 3000), 'http://[::1]:3000')
  t.equal(httpUrl('localhost', 3000), 'http://localhost:3000')
})
