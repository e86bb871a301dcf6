import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { DatabaseUnavailable } from '../../../src/db/engine/errors.ts'
import { eventually } from '../../fixture/eventually.ts'
import { listen } from '../../fixture/ports.ts'

/** A TCP server in place of a database server. */
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

const deadline = 1_000

t.test('statements without a response fail at the deadline, and their connections are closed', async (t) => {
  const { url, sockets } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ url }, deadline)
  t.teardown(() => db.close())
  const started = performance.now()
  const results = await Promise.allSettled(Array.from({ length: 30 }, () => db.run('select 1', [])))
  t.ok(performance.now() - started < deadline + 5_000)
  for (const result of results)
    t.ok(result.status === 'rejected' && result.reason instanceof DatabaseUnavailable)
  t.equal(sockets.length, 10)
  await t.rejects(db.run('select 1', []), DatabaseUnavailable)
  t.equal(sockets.length, 11, 'the next statement has a new connection')
})

t.test('a transaction without a response fails at the deadline, with all of its statements', async (t) => {
  const { url } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ url }, deadline)
  t.teardown(() => db.close())
  let statuses: readonly string[] = []
  const failing = db.transaction(async (transaction) => {
    const results = await Promise.allSettled([1, 2].map((one) => transaction.run(`select ${one}`, [])))
    statuses = results.map(({ status }) => status)
    return transaction.run('select 3', [])
  }, null)
  await t.rejects(failing, DatabaseUnavailable)
  t.strictSame(statuses, ['rejected', 'rejected'])
})

t.test(
  'a server that closes connections immediately is retried at intervals, until the deadline',
  async (t) => {
    const { url, sockets } = await startServer(t, (socket) => socket.destroy())
    const db = openDatabase({ url }, 1_500)
    t.teardown(() => db.close())
    await t.rejects(db.run('select 1', []), DatabaseUnavailable)
    t.ok(sockets.length > 1, 'the connection is retried')
    t.ok(sockets.length <= 60, `${sockets.length} attempts in 1.5 s`)
  },
)

t.test('statements beyond the maximum queue length are refused', async (t) => {
  const { url } = await startServer(t, (socket) => socket.resume())
  const db = openDatabase({ url }, deadline)
  const waiting = Array.from({ length: 2_010 }, () => db.run('select 1', []).catch(() => undefined))
  const refused = t.rejects(db.run('select 1', []), /too many/)
  t.equal(await Promise.race([refused.then(() => 'refused'), ...waiting]), 'refused', 'refused immediately')
  await Promise.all(waiting)
  await db.close()
  await eventually('nothing is pending', async () => db.pending() === 0)
})
