import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { DatabaseUnavailable } from '../../../src/db/engine/errors.ts'
import { eventually } from '../../fixture/eventually.ts'
import { listen } from '../../fixture/ports.ts'

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

const deadline = 1_000

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
  const waiting = Array.from({ length: 2_010 }, () => db.run('select 1', []).catch(() => undefined))
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
