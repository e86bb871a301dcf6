import t, { type Test } from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { head, sendRaw } from '../fixture/raw.ts'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { fileForm, startService } from '../fixture/service.ts'

/** Security headers, in responses from every part of the service. */

const service = await startService(t)
const { db } = service.deps
const ada = await service.register('ada')
const { token } = ada
const bearer = { authorization: `Bearer ${token}` }

interface Answer {
  readonly status: number
  readonly headers: Headers
}

const expected = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': /^(no-store|no-cache|private, no-cache|public, max-age=31536000, immutable)$/,
  'content-security-policy':
    /^(?=.*\bdefault-src 'none')(?=.*\bframe-ancestors 'none')(?!.*\bscript-src [^;]*unsafe)/,
  'x-powered-by': undefined,
  server: undefined,
}

/** Pages of other origins can embed linked files. */
const embeddable = {
  ...expected,
  'cross-origin-resource-policy': 'cross-origin',
  'cache-control': 'private, max-age=60',
}

const hasHeaders = (
  t: Test,
  { headers }: Pick<Answer, 'headers'>,
  what: string,
  headersOfKind: object = expected,
): void => {
  t.match(Object.fromEntries(headers), headersOfKind, what)
}

const fetchPath = async (path: string, init: RequestInit = {}, url = service.url): Promise<Answer> => {
  const { status, headers, body } = await fetch(`${url}${path}`, { redirect: 'manual', ...init })
  await body?.cancel()
  return { status, headers }
}

t.test('responses of every operation', async (t) => {
  const { requestTo } = await prepareOperations(service, ada)
  for (const operation of operations) {
    const request = await requestTo(operation)
    const malformed = { ...request, query: 'bogus=1' }
    // The valid request is last, because it may end the session.
    for (const call of [malformed, { ...malformed, token: undefined }, request]) {
      const reply = await service.call(operation.id, call)
      const isEmbeddable = operation.id === 'downloadLinkedAttachment' && reply.status === 200
      hasHeaders(t, reply, `${operation.id} ${reply.status}`, isEmbeddable ? embeddable : expected)
    }
  }
})

t.test('responses outside of the operations', async (t) => {
  const docs = await (await fetch(`${service.url}/docs`)).text()
  const asset = /\/assets\/[^"]+\.css/.exec(docs)?.[0] ?? 'no asset'
  const json = { ...bearer, 'content-type': 'application/json' }
  const answers: readonly (readonly [status: number, path: string, init?: RequestInit])[] = [
    [200, '/'],
    [200, '/', { method: 'HEAD' }],
    [200, '/docs'],
    [308, '/docs/'],
    [308, '/reference'],
    [200, asset],
    [404, '/docs/package.json'],
    [200, '/guides'],
    [200, '/guides/errors'],
    [404, '/guides/nonsense'],
    [200, '/problems/not_found'],
    [200, '/problems/not_found', { headers: { accept: 'text/html' } }],
    [404, '/problems/nonsense', { headers: { accept: 'text/html' } }],
    [200, '/.well-known/api-catalog'],
    [200, '/password-reset'],
    [200, '/password-reset/script.js'],
    [200, '/password-reset/form.js'],
    [200, '/email-change-undo'],
    [200, '/email-change-undo/script.js'],
    [200, '/invitation'],
    [200, '/invitation/script.js'],
    [404, '/nope'],
    [405, '/tasks', { method: 'DELETE' }],
    [405, '/', { method: 'OPTIONS' }],
    [400, '/%ff'],
    [414, `/tasks/${'a'.repeat(1_025)}`],
    [400, '/tasks', { method: 'POST', headers: json, body: '{' }],
    [415, '/tasks', { method: 'POST', headers: bearer, body: 'title' }],
    [413, '/tasks', { method: 'POST', headers: json, body: ' '.repeat(2_000_000) }],
  ]
  for (const [status, path, init] of answers) {
    const answer = await fetchPath(path, init)
    t.equal(answer.status, status, path)
    hasHeaders(t, answer, `${status} ${path.slice(0, 40)}`)
  }
})

t.test('responses to malformed HTTP', async (t) => {
  const requests: readonly (readonly [status: number, bytes: string])[] = [
    [400, 'NONSENSE\r\n\r\n'],
    [400, head('GET / HTTP/1.1')],
    [417, head('GET / HTTP/1.1', 'Host: x', 'Expect: miracles')],
    [431, head('GET / HTTP/1.1', 'Host: x', `X-Large: ${'a'.repeat(70_000)}`)],
  ]
  for (const [status, bytes] of requests) {
    const answer = await sendRaw(t, service.url, bytes)
    t.equal(answer.status, status)
    hasHeaders(t, answer, bytes.slice(0, 40))
  }
})

t.test('downloads are sandboxed', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With a file' } })
  const { body: attachment } = await service.expect('addTaskAttachment', 201, {
    token,
    params: { task_id: task.id },
    body: fileForm('<script>alert(1)</script>', 'page.html', 'text/html'),
  })
  const request = { token, params: { attach_id: attachment.id } }
  const whole = await service.expect('downloadAttachment', 200, request)
  const part = await service.expect('downloadAttachment', 206, {
    ...request,
    headers: { range: 'bytes=0-1' },
  })
  const same = await service.expect('downloadAttachment', 304, {
    ...request,
    headers: { 'if-none-match': '*' },
  })
  for (const { headers } of [whole, part, same]) {
    hasHeaders(t, { headers }, 'a file')
    t.match(headers.get('content-security-policy'), /\bsandbox\b/)
  }
})

t.test('private responses are not stored in caches', async (t) => {
  const secret = await service.register('secret')
  const { headers } = await service.expect('login', 200, {
    body: { email: secret.email, password: secret.password },
  })
  t.equal(headers.get('cache-control'), 'no-store', 'tokens')
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'Mine' } })
  const request = { token, params: { task_id: task.id } }
  const read = await service.expect('getTask', 200, request)
  t.equal(read.headers.get('cache-control'), 'private, no-cache', 'with Cache-Control in the contract')
  const deleted = await service.expect('deleteTask', 204, request)
  t.equal(deleted.headers.get('cache-control'), 'no-store', 'without it in the contract')
  const missing = await service.expect('getTask', 404, { token, params: { task_id: newId() } })
  t.equal(missing.headers.get('cache-control'), 'no-store', 'problems')
  for (const page of ['/', '/docs', '/problems/not_found'])
    t.equal((await fetchPath(page)).headers.get('cache-control'), 'no-cache', page)
})

t.test('HSTS and the opener policy', async (t) => {
  const hsts = 'max-age=31536000'
  const paths = ['/', '/docs', '/health/live', '/tasks', '/nope', '/%ff']

  t.test('are absent without TLS, even if an untrusted client sends X-Forwarded-Proto', async (t) => {
    for (const path of paths) {
      const { headers } = await fetchPath(path, { headers: { 'x-forwarded-proto': 'https' } })
      t.equal(headers.get('strict-transport-security'), null, path)
      t.equal(headers.get('cross-origin-opener-policy'), null, path)
    }
  })

  t.test('are sent if a trusted proxy reports TLS', async (t) => {
    const { url } = await startService(t, { db, config: { trustProxy: ['127.0.0.1'] } })
    // A malformed URL is refused before X-Forwarded-Proto is read.
    for (const path of paths.filter((path) => path !== '/%ff')) {
      const { headers } = await fetchPath(path, { headers: { 'x-forwarded-proto': 'https' } }, url)
      t.equal(headers.get('strict-transport-security'), hsts, path)
      t.equal(headers.get('cross-origin-opener-policy'), 'same-origin', path)
      const plain = await fetchPath(path, { headers: { 'x-forwarded-proto': 'http' } }, url)
      t.equal(plain.headers.get('strict-transport-security'), null, path)
    }
  })

  t.test('are sent if PUBLIC_URL has https', async (t) => {
    const { url } = await startService(t, { db, config: { publicUrl: 'https://tasks.example.com' } })
    for (const path of paths) {
      const { headers } = await fetchPath(path, {}, url)
      t.equal(headers.get('strict-transport-security'), hsts, path)
      t.equal(headers.get('cross-origin-opener-policy'), 'same-origin', path)
    }
    const { headers } = await sendRaw(t, url, 'NONSENSE\r\n\r\n')
    t.equal(headers.get('strict-transport-security'), hsts)
  })
})

t.test('responses to faults and outages', async (t) => {
  const broken = await startService(t)
  const { token } = await broken.register('ada')
  await broken.loseFiles()
  hasHeaders(t, await broken.call('getReadiness'), '503')
  await broken.deps.db.run('alter table tags rename to hidden_tags', [])
  const failed = await fetchPath('/tags', { headers: { authorization: `Bearer ${token}` } }, broken.url)
  t.equal(failed.status, 500)
  hasHeaders(t, failed, '500')
})
