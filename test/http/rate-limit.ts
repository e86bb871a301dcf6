import { randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import { type AppDeps, buildApp } from '../../src/app.ts'
import { eventually } from '../fixture/eventually.ts'
import { codeOf, verifier } from '../fixture/issuer.ts'
import { head, openRaw } from '../fixture/raw.ts'
import { createRedis, noRedis } from '../fixture/redis.ts'
import { secondFactorActions } from '../fixture/second-factor.ts'
import { type Account, createClient, fileForm, startService } from '../fixture/service.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

/** Each test uses its own networks, which it sends as a proxy at 127.0.0.1 would. */
const limits = {
  rateLimit: 'on',
  rateLimitSignIn: 3,
  rateLimitRefresh: 2,
  rateLimitApi: 5,
  rateLimitUpload: 2,
  rateLimitAnonymous: 4,
} as const
const service = await startService(t, { config: { ...limits, trustProxy: ['127.0.0.1'] } })

/** Another instance on the same database. It is stopped when the test ends. */
const startBeside = async (t: Test, config: Partial<AppDeps['config']>) => {
  const app = await buildApp({ ...service.deps, config: { ...service.deps.config, ...config } })
  t.teardown(() => app.close())
  return { app, ...createClient(await app.listen({ host: '127.0.0.1', port: 0 })) }
}

const from = (network: string) => ({ 'x-forwarded-for': network })

const registerFrom = async (network: string, name: string): Promise<Account> => {
  const email = `${name}@example.com`
  const password = `password of ${name}`
  const { body } = await service.expect('register', 201, {
    body: { username: name, email, password },
    headers: from(network),
  })
  const { access_token: token, refresh_token: refreshToken, user } = body
  return { id: user.id, token, refreshToken, user, email, password }
}

/** With a new email address each time, because failed attempts at the same one are delayed as well. */
const wrongLogin = () => ({ body: { email: `${randomUUID()}@example.com`, password: 'a wrong password' } })

const get = (
  path: string,
  headers: Readonly<Record<string, string>>,
  { url }: { readonly url: string } = service,
) => fetch(`${url}${path}`, { headers, redirect: 'manual' })

const statuses = async (
  count: number,
  send: () => Promise<{ readonly status: number }>,
): Promise<number[]> => {
  const seen: number[] = []
  while (seen.length < count) seen.push((await send()).status)
  return seen
}

t.test('sign-ins and registrations are counted together, by network', async (t) => {
  const ada = await registerFrom('192.0.2.1', 'ada')
  const login = () => service.call('login', { ...wrongLogin(), headers: from('192.0.2.1') })
  t.same(await statuses(3, login), [401, 401, 429])
  const { email, password } = ada
  await service.expect('login', 429, { body: { email, password }, headers: from('192.0.2.1') })
  const body = { username: 'ada2', email: 'ada2@example.com', password }
  await service.expect('register', 429, { body, headers: from('192.0.2.1') })
  await service.expect('login', 200, { body: { email, password }, headers: from('192.0.2.2') })
  await service.expect('getCurrentUser', 200, { token: ada.token, headers: from('192.0.2.1') })
})

t.test('of exchanges of codes, only those that fail are counted', async (t) => {
  // Authorizations are counted, too.
  const unlimited = await startService(t, { db: service.deps.db })
  const codeFor = (name: string) =>
    codeOf(unlimited, 'sign_in', { sub: name, email: `${name}@example.com`, email_verified: true })
  const headers = from('192.0.2.14')
  const exchange = (body: object) => service.call('exchangeOidcCode', { body, headers })
  const wrong = { code: `two_${'x'.repeat(43)}`, code_verifier: verifier }

  t.same(await statuses(5, async () => exchange(await codeFor('walter'))), Array(5).fill(200))
  const last = await exchange(await codeFor('walter'))
  t.match(last.headers.get('ratelimit'), /^"sign_in";r=3;t=\d+$/, 'nothing is used up')
  t.equal((await exchange(wrong)).status, 401)
  t.equal((await exchange(await codeFor('walter'))).status, 200)

  t.test('a right code that needs a second factor is not one that fails', async (t) => {
    const guarded = await secondFactorActions(unlimited).registerGuarded('walda')
    const body = await codeOf(unlimited, 'link', { sub: 'walda' })
    await unlimited.expect('linkIdentity', 201, { token: guarded.token, body })
    const challenged = async () => exchange(await codeFor('walda'))
    t.match((await challenged()).body, { code: 'second_factor_required' })
    t.same(await statuses(4, challenged), Array(4).fill(401))
  })

  t.test('429 when they are used up, which keeps the code', async (t) => {
    t.same(await statuses(3, () => exchange(wrong)), [401, 401, 429])
    const body = await codeFor('walter')
    t.equal((await exchange(body)).status, 429)
    await service.expect('exchangeOidcCode', 200, { body, headers: from('192.0.2.15') })
  })

  t.test('of concurrent failures, exactly as many as the limit are answered', async (t) => {
    const elsewhere = from('192.0.2.16')
    const good = await Promise.all(['wanda', 'wendy', 'willy'].map(codeFor))
    const bodies = [...good, ...Array.from({ length: 6 }, () => wrong)]
    const answers = await Promise.all(
      bodies.map((body) => service.call('exchangeOidcCode', { body, headers: elsewhere })),
    )
    const counts = (status: number) => answers.filter((answer) => answer.status === status).length
    t.ok(counts(401) <= 3, `${counts(401)} failures`)
    t.equal(counts(200) + counts(401) + counts(429), 9)
  })
})

t.test('refreshes are counted by network', async (t) => {
  const { token } = await registerFrom('192.0.2.3', 'brian')
  const refresh = () =>
    service.call('refreshToken', { body: { refresh_token: token }, headers: from('192.0.2.3') })
  t.same(await statuses(3, refresh), [401, 401, 429])
})

t.test('authenticated requests are counted by user, from any network', async (t) => {
  const carol = await registerFrom('192.0.2.4', 'carol')
  const dave = await registerFrom('192.0.2.4', 'dave')
  let host = 0
  const list = () => {
    host += 1
    return service.call('listTasks', { token: carol.token, headers: from(`198.51.100.${host}`) })
  }
  t.same(await statuses(6, list), [200, 200, 200, 200, 200, 429])
  await service.expect('listTasks', 200, { token: dave.token, headers: from('198.51.100.1') })
})

t.test('uploads count against two limits, and both are reported', async (t) => {
  const { token } = await registerFrom('192.0.2.5', 'erin')
  const task = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  const upload = () =>
    service.call('addTaskAttachment', {
      token,
      params: { task_id: task.body.id },
      body: fileForm('some text'),
    })
  const stored = await upload()
  t.equal(stored.status, 201)
  t.equal(stored.headers.get('ratelimit-policy'), '"api";q=5;w=60, "upload";q=2;w=60')
  t.match(stored.headers.get('ratelimit'), /^"api";r=3;t=\d+, "upload";r=1;t=\d+$/)
  t.same(await statuses(2, upload), [201, 429])
  await service.expect('listTasks', 200, { token })
})

t.test('the offset of an upload can be read after its limit is reached', async (t) => {
  const { token } = await registerFrom('192.0.2.77', 'sender')
  const task = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  const creation = { token, params: { task_id: task.body.id }, headers: tusHeaders(10) }
  const upload_id = uploadIdIn((await service.expect('createUpload', 201, creation)).headers)
  const readOffset = () =>
    service.call('getUploadOffset', { token, params: { upload_id }, headers: { 'tus-resumable': '1.0.0' } })
  const send = () =>
    service.call('appendUpload', {
      token,
      params: { upload_id },
      headers: pieceHeaders(1),
      body: Buffer.from('b'),
    })
  t.same(await statuses(4, send), [409, 409, 409, 429])
  t.same(await statuses(6, readOffset), [200, 200, 200, 200, 200, 429])
})

t.test('anonymous requests are counted together, by network', async (t) => {
  const frank = await registerFrom('192.0.2.6', 'frank')
  const headers = from('192.0.2.6')
  const paths = {
    '/': 200,
    '/nothing/here': 404,
    '/openapi.yaml': 200,
    '/tasks': 401,
  }
  for (const [path, status] of Object.entries(paths)) t.equal((await get(path, headers)).status, status, path)
  for (const path of [...Object.keys(paths), '/docs', '/problems/not_found']) {
    t.equal((await get(path, headers)).status, 429, path)
  }

  t.test('including an invalid token', async (t) => {
    t.equal((await get('/tasks', { ...headers, authorization: 'Bearer a.b.c' })).status, 429)
  })

  t.test('including an unsupported method', async (t) => {
    t.equal((await fetch(`${service.url}/tasks`, { method: 'PUT', headers })).status, 429)
  })

  t.test('but not authenticated requests and sign-ins from that network', async () => {
    await service.expect('getCurrentUser', 200, { token: frank.token, headers })
    await service.expect('login', 401, { ...wrongLogin(), headers })
  })

  t.test('and not other networks', async (t) => {
    t.equal((await get('/', from('192.0.2.7'))).status, 200)
  })
})

t.test('a request with a valid token does not count against its network', async (t) => {
  const grace = await registerFrom('192.0.2.8', 'grace')
  const headers = from('192.0.2.8')
  await statuses(5, () => service.call('listTasks', { token: grace.token, headers }))
  t.match((await get('/', headers)).headers.get('ratelimit'), /^"anonymous";r=3;/)
})

t.test('health checks are not limited, and have no RateLimit headers', async (t) => {
  const headers = from('192.0.2.9')
  for (const path of ['/health/live', '/health/ready']) {
    t.same(await statuses(10, () => get(path, headers)), Array(10).fill(200))
    const answer = await get(path, headers)
    t.equal(answer.headers.get('ratelimit'), null)
    t.equal(answer.headers.get('ratelimit-policy'), null)
  }
})

t.test('IPv6 clients are counted by /64', async (t) => {
  for (const host of ['::1', ':ffff::2', ':0:1:2:3']) {
    t.equal((await get('/', from(`2001:db8:0:1${host}`))).status, 200)
  }
  t.equal((await get('/', from('2001:db8:0:1:a:b:c:d'))).status, 200)
  t.equal((await get('/', from('2001:db8:0:1:9:9:9:9'))).status, 429)
  t.equal((await get('/', from('2001:db8:0:2::1'))).status, 200)
})

t.test('the RateLimit headers', async (t) => {
  const { token } = await registerFrom('192.0.2.10', 'heidi')

  t.test('are in every success: 200, HEAD and 304', async (t) => {
    const read = await service.expect('getCurrentUser', 200, { token })
    t.equal(read.headers.get('ratelimit-policy'), '"api";q=5;w=60')
    t.match(read.headers.get('ratelimit'), /^"api";r=4;t=\d+$/)
    const headOnly = await service.call('getCurrentUser', { token, method: 'HEAD' })
    t.match(headOnly.headers.get('ratelimit'), /^"api";r=3;t=\d+$/)
    const etag = read.headers.get('etag') ?? ''
    const unchanged = await service.expect('getCurrentUser', 304, {
      token,
      headers: { 'if-none-match': etag },
    })
    t.equal(unchanged.headers.get('ratelimit-policy'), '"api";q=5;w=60')
    t.match(unchanged.headers.get('ratelimit'), /^"api";r=2;t=\d+$/)
  })

  t.test('are in a 400 and a 404', async (t) => {
    const refused = await service.expect('createTask', 400, { token, body: {} })
    t.match(refused.headers.get('ratelimit'), /^"api";r=1;t=\d+$/)
    const missing = await get('/nothing/here', from('192.0.2.10'))
    t.equal(missing.headers.get('ratelimit-policy'), '"anonymous";q=4;w=60')
    t.match(missing.headers.get('ratelimit'), /^"anonymous";r=3;t=\d+$/)
  })

  t.test('are in a 429, with Retry-After', async (t) => {
    await service.expect('getCurrentUser', 200, { token })
    const { headers, body } = await service.expect('getCurrentUser', 429, { token })
    const seconds = headers.get('retry-after') ?? ''
    t.match(seconds, /^([1-9]|[1-5]\d|60)$/)
    t.equal(headers.get('ratelimit-policy'), '"api";q=5;w=60')
    t.equal(headers.get('ratelimit'), `"api";r=0;t=${seconds}`)
    t.equal(headers.get('cache-control'), 'no-store')
    t.match(body, {
      type: '/problems/too_many_requests',
      status: 429,
      detail: `The limit is 5 requests per minute. Retry in ${seconds} seconds.`,
      instance: '/auth/me',
      code: 'too_many_requests',
    })
    t.notMatch([...headers.keys()].join(), 'x-ratelimit')
  })
})

t.test('requests succeed again after Retry-After', async (t) => {
  const headers = from('192.0.2.11')
  await statuses(4, () => get('/', headers))
  const now = Date.now.bind(Date)
  const later = (seconds: number) => t.intercept(Date, 'now', { value: () => now() + seconds * 1_000 })

  const twenty = later(20)
  const refused = await get('/', headers)
  twenty.restore()
  t.equal(refused.status, 429)
  const wait = Number(refused.headers.get('retry-after'))
  t.ok(wait > 30 && wait <= 40, 'the remaining seconds of the window')

  const tooEarly = later(20 + wait - 5)
  t.equal((await get('/', headers)).status, 429)
  tooEarly.restore()
  later(20 + wait)
  t.equal((await get('/', headers)).status, 200)
})

t.test('of concurrent requests, exactly as many as the limit succeed', async (t) => {
  const { token } = await registerFrom('192.0.2.12', 'ivan')
  const answers = await Promise.all(Array.from({ length: 30 }, () => service.call('listTasks', { token })))
  t.equal(answers.filter(({ status }) => status === 200).length, 5)

  t.test('also on one connection', async (t) => {
    const { socket, answer } = await openRaw(t, service.url)
    const request = head('GET / HTTP/1.1', 'Host: localhost', 'X-Forwarded-For: 192.0.2.13')
    socket.write(request.repeat(6))
    t.same(await statuses(6, answer), [200, 200, 200, 200, 429, 429])
  })
})

t.test('X-Forwarded-For is ignored unless it is from a trusted proxy', async (t) => {
  const direct = await startBeside(t, { trustProxy: [] })
  let host = 0
  const login = () => {
    host += 1
    return direct.call('login', { ...wrongLogin(), headers: from(`198.51.100.${host}`) })
  }
  t.same(await statuses(5, login), [401, 401, 401, 429, 429])
})

t.test('with RATE_LIMIT=off, nothing is limited, and no response has RateLimit headers', async (t) => {
  const open = await startBeside(t, { rateLimit: 'off' })
  const { token } = await open.register('judy')
  t.same(await statuses(7, () => open.call('login', wrongLogin())), Array(7).fill(401))
  t.same(await statuses(7, () => open.call('listTasks', { token })), Array(7).fill(200))
  const answers = [await get('/', {}, open), await open.call('listTasks', { token })]
  for (const { headers } of answers) t.notMatch([...headers.keys()].join(), 'ratelimit')
})

t.test('with Redis', { skip: noRedis }, async (t) => {
  const redis = await createRedis(t)
  // Redis is down when the instances start.
  const one = await startBeside(t, { redisUrl: redis.url })
  const other = await startBeside(t, { redisUrl: redis.url })
  const warnings = t.capture(one.app.log, 'warn')
  const notes = t.capture(one.app.log, 'info')
  /** Whether both instances count together. Each call uses a new network. */
  let networks = 0
  const countTogether = async (): Promise<boolean> => {
    const headers = from(`203.0.112.${(networks += 1)}`)
    await get('/', headers, one)
    return /;r=2;/.test((await get('/', headers, other)).headers.get('ratelimit') ?? '')
  }
  const isBack = async (t: Test): Promise<void> => {
    await eventually('the instances count together again', countTogether)
    t.equal(notes().filter(({ args }) => /again/.test(String(args))).length, 1, 'logged once')
  }
  const limited = [200, 200, 200, 200, 429, 429]

  t.test('down at the start, each instance counts separately', async (t) => {
    t.same(await statuses(6, () => get('/', from('203.0.113.2'), one)), limited)
    await redis.start()
    await isBack(t)
  })

  t.test('instances count together', async (t) => {
    const seen = []
    for (const each of [one, other, one, other, one, other]) {
      seen.push(await get('/', from('203.0.113.4'), each))
    }
    t.same(
      seen.map(({ status }) => status),
      limited,
    )
    t.match(seen[2]?.headers.get('ratelimit'), /^"anonymous";r=1;t=(60|5\d)$/)
    t.equal(seen[5]?.headers.get('ratelimit'), `"anonymous";r=0;t=${seen[5]?.headers.get('retry-after')}`)
  })

  t.test('exchanges that succeed are not counted', async (t) => {
    const unlimited = await startService(t, { db: service.deps.db })
    const claims = { sub: 'redis', email: 'redis@example.com', email_verified: true }
    const headers = from('203.0.113.7')
    const exchange = async () => {
      const body = await codeOf(unlimited, 'sign_in', claims)
      return one.call('exchangeOidcCode', { body, headers })
    }
    t.same(await statuses(5, exchange), Array(5).fill(200))
    t.match((await other.call('login', { ...wrongLogin(), headers })).headers.get('ratelimit'), /;r=2;/)
  })

  t.test('killed, limits still hold, and one warning is logged', async (t) => {
    warnings()
    await redis.kill()
    t.same(await statuses(6, () => get('/', from('203.0.113.6'), one)), limited)
    const login = () => one.call('login', { ...wrongLogin(), headers: from('203.0.113.6') })
    t.same(await statuses(5, login), [401, 401, 401, 429, 429])
    t.equal(warnings().length, 1)
    await redis.start()
    await isBack(t)
  })

  t.test('hanging, limits still hold, and requests are not delayed', async (t) => {
    redis.freeze()
    t.teardown(() => redis.thaw())
    const started = performance.now()
    t.same(await statuses(6, () => get('/', from('203.0.113.5'), one)), limited)
    t.ok(performance.now() - started < 5_000, 'only one request waits')
    t.equal(warnings().length, 1)
    const third = await startBeside(t, { redisUrl: redis.url })
    await third.app.close()
    t.pass('an instance can start and stop meanwhile')
    redis.thaw()
    await isBack(t)
  })

  t.test('refusing the password, a warning is logged without the password', async (t) => {
    await redis.kill()
    await redis.start({ password: 'another' })
    const logged: unknown[] = []
    await eventually('a warning is logged', async () => {
      logged.push(...warnings().map(({ args }) => args))
      return logged.length > 0
    })
    t.notMatch(inspect(logged, { depth: 9 }), redis.password)
  })
})
