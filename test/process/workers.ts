import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { createEmptyDatabase, environmentFor } from '../fixture/database.ts'
import { openStream } from '../fixture/event-stream.ts'
import { eventually } from '../fixture/eventually.ts'
import { metricsUrl } from '../fixture/observe.ts'
import { runProcess, type ServiceProcess, startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** Several worker processes as one service. */

const serverUrl = process.env.DATABASE_URL
interface Options {
  readonly method?: string
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** A connection to one of the workers. */
interface Connection {
  /** Sends a request. Resolves to the status. */
  readonly send: (path: string, options?: Options) => Promise<number>
  /** Starts a request without its body. */
  readonly begin: (path: string, options: Options) => ClientRequest
}

/** The workers by number, from the log. */
const workersOf = (service: ServiceProcess): ReadonlyMap<number, { readonly pid: number }> => {
  const workers = new Map<number, { readonly pid: number }>()
  const lines = service.output()
  for (const [, pid, worker] of lines.matchAll(/"pid":(\d+),.*"worker":(\d+),"msg":"Server listening/g))
    workers.set(Number(worker), { pid: Number(pid) })
  for (const [, worker] of lines.matchAll(/worker (\d+) exited/g)) workers.delete(Number(worker))
  return workers
}

/** Resolves when a worker with a higher number listens. */
const newerThan = async (service: ServiceProcess, worker: number): Promise<void> => {
  while (Math.max(...workersOf(service).keys()) <= worker) await pause(20)
}

t.test('two workers are one service', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const anonymousLimit = 20
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    DATABASE_URL: options.url,
    WORKERS: '2',
    LOG_LEVEL: 'info',
    LOG_FORMAT: 'json',
    METRICS_PORT: '0',
    METRICS_HOST: '127.0.0.1',
    TRUST_PROXY: '127.0.0.1',
    RATE_LIMIT: 'on',
    RATE_LIMIT_SIGN_IN: '100000',
    RATE_LIMIT_API: '100000',
    RATE_LIMIT_ANONYMOUS: String(anonymousLimit),
  })
  const client = createClient(service.url)
  const ada = await client.register('ada')

  const open = async (): Promise<Connection> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const begin: Connection['begin'] = (path, { method = 'GET', token, headers, body }) =>
      request(`${service.url}${path}`, {
        agent,
        method,
        headers: {
          ...headers,
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
      })
    const send: Connection['send'] = (path, options = {}) => {
      const started = begin(path, options)
      started.end(options.body === undefined ? undefined : JSON.stringify(options.body))
      return statusOf(started)
    }
    await send('/health/live')
    return { send, begin }
  }

  const workersNow = () => workersOf(service)

  /** Opens `count` connections to each worker. While one worker is suspended, the other accepts all connections. */
  const openToBoth = async (count: number) => {
    const [one, other] = [...workersNow()].map(([worker, { pid }]) => ({ worker, pid }))
    if (one === undefined || other === undefined) throw new Error('There are not two workers')
    const openTo = async (open: () => Promise<Connection>, others: number): Promise<Connection[]> => {
      process.kill(others, 'SIGSTOP')
      try {
        return await Promise.all(Array.from({ length: count }, open))
      } finally {
        process.kill(others, 'SIGCONT')
      }
    }
    const oneStreams = await openTo(open, other.pid)
    const otherStreams = await openTo(open, one.pid)
    const [first, second] = [oneStreams[0], otherStreams[0]]
    if (first === undefined || second === undefined) throw new Error('The count is zero')
    return [
      { ...one, all: oneStreams, first },
      { ...other, all: otherStreams, first: second },
    ] as const
  }

  const statusOfMe = ({ send }: Connection, token: string) => send('/auth/me', { token })

  await t.test('401 at one worker for credentials revoked at the other', async (t) => {
    const [{ first: one }, { first: other }] = await openToBoth(1)
    /** Waits two seconds, which is less than the five for which a credential is cached. */
    const isRefused = async (connection: Connection, token: string): Promise<boolean> => {
      const started = performance.now()
      while ((await statusOfMe(connection, token)) !== 401) {
        if (performance.now() - started > 2_000) return false
        await pause(10)
      }
      return true
    }
    for (const [revoking, caching] of [
      [one, other],
      [other, one],
      [one, other],
    ] as const) {
      const { email, password } = ada
      const { body: session } = await client.expect('login', 200, { body: { email, password } })
      const { access_token: token } = session
      t.equal(await statusOfMe(caching, token), 200)
      t.equal(await revoking.send('/auth/logout', { method: 'POST', token }), 204)
      t.ok(await isRefused(caching, token), 'a session')

      const { body: made } = await client.expect('createApiToken', 201, {
        token: ada.token,
        body: { name: 'for both', scopes: ['users:read'] },
      })
      t.equal(await statusOfMe(caching, made.token), 200)
      const path = `/auth/tokens/${made.id}`
      t.equal(await revoking.send(path, { method: 'DELETE', token: ada.token }), 204)
      t.ok(await isRefused(caching, made.token), 'an API token')
    }
    const bob = await client.register('bob')
    t.equal(await statusOfMe(one, bob.token), 200)
    t.equal(await other.send(`/users/${bob.id}`, { method: 'DELETE', token: ada.token }), 204)
    t.ok(await isRefused(one, bob.token), 'a user')
  })

  await t.test('rate limits are shared, and metrics are by worker', async (t) => {
    const connections = (await openToBoth(anonymousLimit)).flatMap(({ all }) => all)
    const headers = { 'x-forwarded-for': '192.0.2.1' }
    const statuses = await Promise.all(connections.map(({ send }) => send('/auth/me', { headers })))
    const count = (wanted: number) => statuses.filter((status) => status === wanted).length
    t.equal(count(401), anonymousLimit)
    t.equal(count(429), anonymousLimit)
    const metrics = await (await fetch(metricsUrl(service))).text()
    const refused = [
      ...metrics.matchAll(
        /^taskwright_problems_total{code="too_many_requests",route="\/auth\/me",worker="(\d+)"} (\d+)$/gm,
      ),
    ]
    const sum = refused.reduce((total, [, , requests]) => total + Number(requests), 0)
    t.equal(sum, anonymousLimit)
    for (const worker of workersOf(service).keys())
      t.ok(metrics.includes(`process_resident_memory_bytes{worker="${worker}"} `), `worker ${worker}`)
  })

  await t.test('each worker has a bounded queue of password hashes', async (t) => {
    const [{ all, first: spare }] = await openToBoth(60)
    let addresses = 0
    const login = ({ send }: Connection) => {
      const body = { email: `nobody-${(addresses += 1)}@example.com`, password: 'the password of nobody' }
      return send('/auth/login', { method: 'POST', body })
    }
    const logins = Promise.all(all.filter((connection) => connection !== spare).map(login))
    t.equal(await spare.send('/health/live'), 200)
    const statuses = await logins
    t.strictSame(new Set(statuses), new Set([401, 429]))
    const hashed = statuses.filter((status) => status === 401).length
    t.ok(hashed >= 33, 'one is hashed and 32 wait: half of the limit of a single process')
  })

  await t.test('streams of both workers have every event once, even if resumed at the other', async (t) => {
    const [one, other] = await openToBoth(1)
    const { hostname } = new URL(service.url)
    // Another host name, so that a stream does not reuse a kept-alive connection.
    const url = service.url.replace(hostname, hostname === 'localhost' ? '127.0.0.1' : 'localhost')
    const openAlone = async (others: number, after?: string) => {
      process.kill(others, 'SIGSTOP')
      try {
        return await openStream(t, { url }, { token: ada.token, ...(after !== undefined && { after }) })
      } finally {
        process.kill(others, 'SIGCONT')
      }
    }
    const streams = [await openAlone(other.pid), await openAlone(one.pid)] as const
    const create = async (title: string): Promise<string> =>
      (await client.expect('createTask', 201, { token: ada.token, body: { title } })).body.id
    const next = async ({ next }: (typeof streams)[number], count: number) => {
      const tasks: unknown[] = []
      while (tasks.length < count) tasks.push((await next()).data.task_id)
      return tasks
    }
    const first = [await create('One'), await create('Two'), await create('Three')]
    for (const stream of streams) t.strictSame(await next(stream, first.length), first)

    const ids = streams.map(({ lastId }) => lastId())
    for (const { close } of streams) close()
    const missed = [await create('Four'), await create('Five')]
    const resumed = [await openAlone(one.pid, ids[0]), await openAlone(other.pid, ids[1])] as const
    const last = await create('Six')
    for (const stream of resumed) t.strictSame(await next(stream, 3), [...missed, last])
    for (const { close, rest } of resumed) {
      t.strictSame(rest(), [])
      close()
    }
  })

  await t.test('a killed worker is replaced, and no acknowledged write is lost', async (t) => {
    const [dying, { worker, first: surviving }] = await openToBoth(1)
    const acknowledged: string[] = []
    const write = async (): Promise<void> => {
      const { body } = await client.expect('createTask', 201, { token: ada.token, body: { title: 'Kept' } })
      acknowledged.push(body.id)
    }
    const over = new AbortController()
    let failures = 0
    const writing = Array.from({ length: 8 }, async () => {
      // Connections to the killed worker are lost.
      while (!over.signal.aborted) await write().catch(() => (failures += 1))
    })
    try {
      await eventually('both workers are under load', async () => acknowledged.length > 50)
      process.kill(dying.pid, 'SIGKILL')
      t.equal(await statusOfMe(surviving, ada.token), 200, 'the other worker responds')
      const before = acknowledged.length
      await eventually('writes continue', async () => acknowledged.length > before + 50)
    } finally {
      over.abort()
      await Promise.all(writing)
    }
    await newerThan(service, Math.max(dying.worker, worker))
    t.match(service.output(), new RegExp(`worker ${dying.worker} exited \\(SIGKILL\\); starting a new one`))
    t.ok(failures <= 8 + 8, 'at most the requests that it was running or about to receive')
    for (const task_id of acknowledged)
      await client.expect('getTask', 200, { token: ada.token, params: { task_id } })
  })

  await t.test('a signal to all processes lets each worker finish its requests', async (t) => {
    const workers = await openToBoth(1)
    const body = JSON.stringify({ title: 'Begun before the stop' })
    const headers = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      expect: '100-continue',
    }
    const running = workers.map(({ first: { begin } }) =>
      begin('/tasks', { method: 'POST', token: ada.token, headers }),
    )
    for (const one of running) one.flushHeaders()
    await Promise.all(running.map((one) => once(one, 'continue')))
    for (const { pid } of workers)
      for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal)
    const ended = service.end('SIGTERM')
    await eventually('the service is stopping', async () =>
      service.output().includes('stopping after SIGTERM'),
    )
    const statuses = running.map(statusOf)
    for (const one of running) one.end(body)
    t.strictSame(await Promise.all(statuses), [201, 201])
    t.equal(await ended, 0)
    t.match(service.output(), /"msg":"stopped"\}$/)
  })
})

t.test('workers exit without their supervisor, and if their port is taken', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: options.url, WORKERS: '2' }
  const service = await startProcess(t, environment)
  const PORT = new URL(service.url).port
  const { code, output } = await runProcess({ ...environment, PORT })
  t.equal(code, 1, 'exits if every worker fails to start')
  t.match(output, /EADDRINUSE/)
  t.match(output, /could not start$/)
  // Resolves when the last process with the output has exited.
  t.equal(await service.end('SIGKILL'), null)
  await t.rejects(fetch(`${service.url}/health/live`))
})

t.test('a hanging worker delays a stop only up to its deadline', async (t) => {
  const environment = {
    ...(await environmentFor(t)),
    WORKERS: '2',
    SHUTDOWN_SECONDS: '5',
    LOG_LEVEL: 'info',
    LOG_FORMAT: 'json',
  }
  const service = await startProcess(t, environment)
  const [hanging] = workersOf(service).values()
  if (hanging === undefined) throw new Error('There is no worker')
  process.kill(hanging.pid, 'SIGSTOP')
  const started = performance.now()
  // Resolves when the last process with the output has exited.
  t.equal(await service.end('SIGTERM'), 1)
  t.match(service.output(), /"msg":"shutdown timed out"\}$/)
  t.ok(performance.now() - started < 20_000)
})

t.test('rate limits hold in each worker while the supervisor hangs', async (t) => {
  const anonymousLimit = 3
  const service = await startProcess(t, {
    ...(await environmentFor(t)),
    WORKERS: '2',
    RATE_LIMIT: 'on',
    RATE_LIMIT_ANONYMOUS: String(anonymousLimit),
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const send = (): Promise<number> => {
    const started = request(`${service.url}/auth/me`, { agent })
    started.end()
    return statusOf(started)
  }
  t.equal(await send(), 401)
  void service.end('SIGSTOP')
  const statuses: number[] = []
  while (statuses.length <= anonymousLimit) statuses.push(await send())
  t.strictSame(statuses, [401, 401, 401, 429])
  void service.end('SIGCONT')
  t.equal(await service.end('SIGTERM'), 0)
})

const statusOf = async (message: ClientRequest): Promise<number> => {
  const [response] = (await once(message, 'response')) as [IncomingMessage]
  await text(response)
  return response.statusCode ?? 0
}
