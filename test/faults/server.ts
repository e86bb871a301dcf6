import { eventually } from '../fixture/eventually.ts'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { createPostgres } from '../../scripts/run/postgres.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'
import { startTcpProxy } from '../fixture/tcp-proxy.ts'

/**
 * The maximum response time in milliseconds, whatever happens to the database. A statement that waits behind five others of its
 * user waits for their timeouts, and then for a connection.
 */
const answerDeadline = timeLimits.answer + 1_000

/** The maximum time in milliseconds from the recovery of the database to that of the service. */
const recoveryDeadline = 15_000

t.test('faults of the database server', async (t) => {
  const server = await createPostgres(t)
  const proxy = await startTcpProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const service = await startProcess(
    t,
    { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url.href },
    { until: 'listening' },
  )
  const { call, expect, register } = createClient(service.url)

  /** The status of a request, and its duration in milliseconds. */
  const timed = async (send: () => Promise<{ status: number }>) => {
    const started = performance.now()
    const { status } = await send()
    return { status, time: performance.now() - started }
  }

  const recovers = async (t: Test): Promise<void> => {
    const started = performance.now()
    while ((await call('getReadiness')).status !== 200) {
      if (performance.now() - started > recoveryDeadline) throw new Error('The service does not recover')
      await pause(50)
    }
    t.pass(`ready again after ${Math.round(performance.now() - started)} ms`)
  }

  /** Waits for a failed check, because results are cached for a second. */
  const isNotReady = (): Promise<void> =>
    eventually('the service is not ready', async () => (await call('getReadiness')).status === 503)

  await t.test('the service waits for a server that is not running yet', async (t) => {
    await expect('getLiveness', 200)
    await expect('getReadiness', 503)
    await server.start()
    await recovers(t)
  })

  const { token } = await register('ada')
  const acknowledged = new Set<string>()
  const refused = new Set<string>()

  /**
   * Writes from eight clients until `stop` has finished. Each write is acknowledged, refused (503) or has an unknown outcome
   * (504), within the deadline.
   */
  const underLoad = async (t: Test, stop: () => Promise<void>): Promise<void> => {
    const state = { isOver: false, longest: 0, refused: 0, unknown: 0, written: 0 }
    const write = async (): Promise<void> => {
      while (!state.isOver) {
        const started = performance.now()
        const title = `Under load ${randomUUID()}`
        const { status, body } = await call('createTask', { token, body: { title } })
        state.longest = Math.max(state.longest, performance.now() - started)
        if (status === 201) {
          acknowledged.add((body as { id: string }).id)
          state.written += 1
        } else {
          if (status === 503) {
            refused.add(title)
            state.refused += 1
          } else if (status === 504) state.unknown += 1
          else t.fail(`createTask answered ${status}`)
          await pause(20)
        }
      }
    }
    const writers = Array.from({ length: 8 }, write)
    const untilWritten = (count: number) =>
      eventually(`${count} are written`, async () => state.written >= count)
    await untilWritten(20)
    await stop()
    await recovers(t)
    await untilWritten(state.written + 20)
    state.isOver = true
    await Promise.all(writers)
    t.ok(
      state.longest < answerDeadline,
      `${state.written} written, ${state.refused} refused, ${state.unknown} unknown, longest ${Math.round(state.longest)} ms`,
    )
  }

  await t.test('the server restarts under load', async (t) =>
    underLoad(t, async () => {
      await server.stop()
      await isNotReady()
      t.equal((await call('getLiveness')).status, 200)
      await server.start()
    }),
  )

  await t.test('the server hangs', async (t) =>
    underLoad(t, async () => {
      server.signal('SIGSTOP')
      await isNotReady()
      const ready = await timed(() => call('getReadiness'))
      t.equal(ready.status, 503)
      t.ok(ready.time < 3_000, 'readiness responds soon')
      const list = await timed(() => call('listTasks', { token }))
      t.equal(list.status, 503)
      t.ok(list.time < answerDeadline, `listTasks took ${Math.round(list.time)} ms`)
      server.signal('SIGCONT')
    }),
  )

  await t.test('connections are cut repeatedly', async (t) =>
    underLoad(t, async () => {
      for (let round = 0; round < 10; round += 1) {
        proxy.cut()
        await pause(100)
      }
    }),
  )

  await t.test('the network drops everything', async (t) =>
    underLoad(t, async () => {
      proxy.passage = 'swallow'
      const list = await timed(() => call('listTasks', { token }))
      t.equal(list.status, 503)
      t.ok(list.time < answerDeadline, `listTasks took ${Math.round(list.time)} ms`)
      proxy.passage = 'pass'
    }),
  )

  await t.test('a proxy closes connections immediately', async (t) =>
    underLoad(t, async () => {
      proxy.passage = 'close'
      proxy.cut()
      const before = proxy.accepted()
      await pause(5_000)
      t.ok(proxy.accepted() - before < 250, `${proxy.accepted() - before} connections in 5 s`)
      proxy.passage = 'pass'
    }),
  )

  await t.test('requests succeed on a slow network', async () => {
    proxy.passage = 'delay'
    await expect('listTasks', 200, { token })
    proxy.passage = 'pass'
  })

  await t.test('acknowledged tasks exist, and refused ones do not', async (t) => {
    const found = new Set<string>()
    const titles = new Set<string>()
    let cursor: string | null = null
    do {
      const query: Record<string, string | number> = { limit: 200, ...(cursor !== null && { cursor }) }
      const { body } = await expect('listTasks', 200, { token, query })
      for (const { id, title } of body.items) {
        found.add(id)
        titles.add(title)
      }
      cursor = body.next_cursor
    } while (cursor !== null)
    t.strictSame(
      [...acknowledged].filter((id) => !found.has(id)),
      [],
    )
    t.strictSame(
      [...refused].filter((title) => titles.has(title)),
      [],
    )
    t.comment(`${acknowledged.size} tasks`)
  })
  t.equal(await service.end('SIGTERM'), 0)
})
