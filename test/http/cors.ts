import t, { type Test } from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { lookUp, member } from '../../scripts/client/contract-check.ts'
import { narrowHasher, whileHashing } from '../fixture/hashing.ts'
import { operations } from '../fixture/operations.ts'
import { type Service, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Cross-origin requests, which CORS_ORIGINS allows. */

const origin = 'https://app.example.com'
const passwords = narrowHasher()
const service = await startService(t, {
  config: { corsOrigins: ['http://localhost:5173', origin] },
  passwords,
})
const ada = await service.register('ada')
const bearer = { authorization: `Bearer ${ada.token}` }

const fetchPath = async (path: string, init: RequestInit = {}, { url }: Pick<Service, 'url'> = service) => {
  const { status, headers, body } = await fetch(`${url}${path}`, { redirect: 'manual', ...init })
  await body?.cancel()
  return { status, headers }
}

const corsNames = (headers: Headers): string[] =>
  [...headers.keys()].filter((name) => name.startsWith('access-control-'))

const listed = (value: string | null): string[] => (value ?? '').split(', ')

const isReadable = (t: Test, { headers }: { readonly headers: Headers }, what: string): void => {
  t.equal(headers.get('access-control-allow-origin'), origin, what)
  t.ok(listed(headers.get('vary')).includes('Origin'), what)
  t.ok(listed(headers.get('access-control-expose-headers')).includes('ETag'), what)
  t.equal(headers.get('access-control-allow-credentials'), null, what)
}

const preflight = (path: string, headers: Record<string, string> = {}, at?: Pick<Service, 'url'>) =>
  fetchPath(
    path,
    { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'GET', ...headers } },
    at,
  )

t.test('without CORS_ORIGINS, no response has a CORS header', async (t) => {
  const closed = await startService(t, { db: service.deps.db })
  for (const path of ['/', '/health/live', '/tasks', '/nope', '/%ff', '/openapi.json']) {
    const { headers } = await fetchPath(path, { headers: { origin } }, closed)
    t.same(corsNames(headers), [], path)
    t.equal(headers.get('vary'), null, path)
  }
  const { status, headers } = await preflight('/tasks', {}, closed)
  t.equal(status, 405)
  t.same(corsNames(headers), [])
})

t.test('a listed origin can read every response, including problems', async (t) => {
  const as = (more: Record<string, string> = {}) => ({ headers: { origin, ...more } })
  const json = as({ ...bearer, 'content-type': 'application/json' })
  const answers: readonly (readonly [status: number, path: string, init: RequestInit])[] = [
    [200, '/tasks', as(bearer)],
    [200, '/health/live', as()],
    [200, '/openapi.yaml', as()],
    [304, '/openapi.yaml', as({ 'if-none-match': '*' })],
    [201, '/tasks', { ...json, method: 'POST', body: '{"title":"From afar"}' }],
    [400, '/tasks', { ...json, method: 'POST', body: '{' }],
    [413, '/tasks', { ...json, method: 'POST', body: ' '.repeat(2_000_000) }],
    [415, '/tasks', { ...as(bearer), method: 'POST', body: 'title' }],
    [401, '/tasks', as()],
    [404, `/tasks/${newId()}`, as(bearer)],
    [404, '/nope', as()],
    [405, '/tasks', { ...as(), method: 'DELETE' }],
    [400, '/%ff', as()],
    [414, `/tasks/${'a'.repeat(1_025)}`, as()],
  ]
  for (const [status, path, init] of answers) {
    const answer = await fetchPath(path, init)
    t.equal(answer.status, status, path)
    isReadable(t, answer, `${status} ${path.slice(0, 40)}`)
  }

  const busy = await whileHashing(passwords, () =>
    service.expect('login', 429, { body: { email: ada.email, password: ada.password }, headers: { origin } }),
  )
  isReadable(t, busy, '429')
})

t.test('an origin that is not listed gets no CORS header', async (t) => {
  const others = [
    'null',
    'https://evil.example',
    'http://app.example.com',
    'https://app.example.com:8443',
    'https://app.example.com.evil.example',
    'https://evil.example/https://app.example.com',
    'https://app.example.co',
    'HTTPS://APP.EXAMPLE.COM',
    `${origin}, ${origin}`,
    '*',
    '',
  ]
  for (const other of others) {
    for (const path of ['/tasks', '/nope', '/%ff', '/openapi.json']) {
      const { headers } = await fetchPath(path, { headers: { origin: other } })
      t.same(corsNames(headers), [], `${other} ${path}`)
      t.equal(headers.get('vary'), 'Origin', 'caches keep responses to different origins apart')
    }
    const refused = await preflight('/tasks', { origin: other })
    t.equal(refused.status, 405)
    t.same(corsNames(refused.headers), [])
  }
  const { headers } = await fetchPath('/health/live')
  t.same(corsNames(headers), [], 'nor does a request without Origin')
  t.equal(headers.get('vary'), 'Origin')
})

t.test('Vary has Origin along with the other headers that a response depends on', async (t) => {
  const { headers } = await fetchPath('/problems/not_found', { headers: { origin } })
  t.equal(headers.get('vary'), 'Origin, Accept')
})

t.test('a preflight lists the methods of the path, without a token', async (t) => {
  const paths = Map.groupBy(operations, ({ path }) => path)
  for (const [path, operations] of paths) {
    const methods = operations.map(({ method }) => method)
    const all = methods.includes('GET') ? [...methods, 'HEAD'] : methods
    const { status, headers } = await preflight(path.replaceAll(/\{\w+\}/g, newId()))
    t.equal(status, 204, path)
    t.equal(headers.get('access-control-allow-origin'), origin)
    t.equal(headers.get('vary'), 'Origin')
    t.same(listed(headers.get('access-control-allow-methods')), all.toSorted(), path)
    t.match(headers.get('access-control-max-age'), /^\d+$/)
    t.equal(headers.get('access-control-allow-credentials'), null)
    t.equal(headers.get('x-content-type-options'), 'nosniff')
  }
})

t.test('405 for OPTIONS that is not a preflight, 404 for unknown paths', async (t) => {
  const { status, headers } = await fetchPath('/tasks', { method: 'OPTIONS', headers: { origin } })
  t.equal(status, 405)
  t.equal(headers.get('allow'), 'GET, HEAD, POST')
  for (const path of ['/nope', '/tasks/x/y/z', '/*', '*'].map((path) => path.replace(/^\*/, '/%2a'))) {
    t.equal((await preflight(path)).status, 404, path)
    t.equal((await fetchPath(path, { method: 'OPTIONS', headers: { origin } })).status, 404, path)
    t.equal((await fetchPath(path, { headers: { origin } })).status, 404, path)
  }
})

/** CORS-safelisted headers, which need no permission. */
const safe = ['Accept', 'Cache-Control', 'Content-Length', 'Content-Type', 'Last-Modified']

/** Response headers for the browser, which pages do not read. */
const forBrowsers = ['Cross-Origin-Resource-Policy']

t.test('all request headers of the contract are allowed', async (t) => {
  const allowed = listed((await preflight('/tasks')).headers.get('access-control-allow-headers'))
  const parameters = lookUp(['components', 'parameters'])?.node ?? {}
  const names = Object.keys(parameters)
    .map((name) => lookUp(['components', 'parameters', name])?.node)
    .filter((parameter) => parameter?.in === 'header')
    .map((parameter) => String(parameter?.name))
  t.ok(names.length >= 3)
  for (const name of [...names, 'Authorization', 'Content-Type', 'X-HTTP-Method-Override'])
    t.ok(allowed.includes(name), name)
})

t.test('headers of tracing are allowed, or those that the operator names', async (t) => {
  const allowedAt = async (at: Pick<Service, 'url'>) =>
    listed((await preflight('/tasks', {}, at)).headers.get('access-control-allow-headers'))
  const tracing = ['traceparent', 'tracestate', 'baggage', 'sentry-trace']
  const byDefault = await allowedAt(service)
  t.same(
    tracing.filter((name) => !byDefault.includes(name)),
    [],
  )
  const config = { corsOrigins: [origin], corsHeaders: ['x-datadog-trace-id'] }
  const named = await allowedAt(await startService(t, { db: service.deps.db, config }))
  t.ok(named.includes('x-datadog-trace-id'))
  t.ok(named.includes('Authorization'), 'headers of the contract are always allowed')
  t.notOk(named.includes('traceparent'))
})

t.test('all response headers of the contract are exposed', async (t) => {
  const { headers } = await fetchPath('/health/live', { headers: { origin } })
  const exposed = listed(headers.get('access-control-expose-headers'))
  const names = operations.flatMap(({ path, method }) => {
    const responses = lookUp(['paths', path, method.toLowerCase(), 'responses'])
    return Object.keys(responses?.node ?? {}).flatMap((status) => {
      const response = responses && member(responses, status)
      return Object.keys(response?.node.headers ?? {})
    })
  })
  t.ok(names.length > 10)
  for (const name of new Set(names)) t.ok([...safe, ...forBrowsers, ...exposed].includes(name), name)
})

t.test('with *, all origins get the same response', async (t) => {
  const open = await startService(t, { db: service.deps.db, config: { corsOrigins: '*' } })
  for (const headers of [{ origin }, { origin: 'null' }, { origin: 'https://else.example' }, {}]) {
    const answer = await fetchPath('/openapi.json', { headers }, open)
    t.equal(answer.headers.get('access-control-allow-origin'), '*')
    t.equal(answer.headers.get('access-control-allow-credentials'), null)
    t.equal(answer.headers.get('vary'), null, 'a cache can reuse it for any origin')
  }
  t.equal((await preflight('/tasks', {}, open)).status, 204)
  t.equal(
    (await fetchPath('/%ff', { headers: { origin } }, open)).headers.get('access-control-allow-origin'),
    '*',
  )
})

t.test('a listed origin can read 500 and 503', async (t) => {
  const broken = await startService(t, { config: { corsOrigins: [origin] } })
  const { attachFile, createTask } = taskActions(broken)
  const ada = await broken.register('ada')
  const params = { attach_id: await attachFile(ada, (await createTask(ada)).id) }
  await broken.loseFiles()
  const { token } = ada
  const unavailable = { token, params, headers: { origin } }
  isReadable(t, await broken.expect('downloadAttachment', 503, unavailable), '503')
  await broken.deps.db.run('alter table tags rename to hidden_tags', [])
  const failed = await fetchPath('/tags', { headers: { origin, authorization: `Bearer ${token}` } }, broken)
  t.equal(failed.status, 500)
  isReadable(t, failed, '500')
})
