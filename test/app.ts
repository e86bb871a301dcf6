import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { load as parseYaml } from 'js-yaml'
import { newId } from '../src/db/shared/ids.ts'
import { version } from '../src/domain/shared/version.ts'
import { maxBodyBytes } from '../src/http/body.ts'
import type { SeenResponse } from '../scripts/client/contract-check.ts'
import { eventually } from './fixture/eventually.ts'
import { type Sent, sendRequest } from '../scripts/client/http-client.ts'
import { head, openRaw, sendRaw } from './fixture/raw.ts'
import { operations } from './fixture/operations.ts'
import { type Account, type Reply, type Service, startService } from './fixture/service.ts'

/** Rules for all operations, and for paths without an operation. */

const service = await startService(t)
const admin = await service.register('admin')
const ada = await service.register('ada')
const { token } = ada

const newTask = async ({ token }: Account, more: object = {}) =>
  (await service.expect('createTask', 201, { token, body: { title: 'A task', ...more } })).body

const leaks =
  /\b(select|insert|returning|relation|constraint)\b|\bat .+:\d+:\d+|node_modules|\.ts\b|postgres/i

/** Checks what all responses have in common and returns the response. One assertion, because there are thousands of responses. */
const checked = <R extends SeenResponse>(t: Test, response: R, path?: string): R => {
  const { status, headers, body } = response
  const requestId = headers.get('x-request-id')
  const instance = path?.split('?', 1)[0] ?? ''
  const isProblem = status >= 400
  t.match(
    {
      sniffing: headers.get('x-content-type-options'),
      requestId,
      apiVersion: headers.get('api-version'),
      type: headers.get('content-type'),
      caching: headers.get('cache-control'),
      body,
      leak: (isProblem && leaks.exec(JSON.stringify(body))?.[0]) || 'none',
    },
    {
      sniffing: /^nosniff$/,
      requestId: /^[0-9a-f-]{36}$/,
      apiVersion: version,
      ...(isProblem && {
        type: /^application\/problem\+json; charset=utf-8$/,
        caching: /^no-store$/,
        leak: /^none$/,
      }),
      ...(isProblem &&
        body !== null && {
          body: {
            type: /\/problems\/[a-z_]+$/,
            title: String,
            status,
            detail: String,
            request_id: requestId,
            // Longer paths are truncated.
            ...(path !== undefined && instance.length <= 256 && { instance }),
          },
        }),
    },
  )
  return response
}

/** Requests any path, even one without an operation. */
const fetchPath = async (
  t: Test,
  path: string,
  init: Partial<Sent> = {},
  at: Service = service,
): Promise<Reply> => {
  const response = await sendRequest(`${at.url}${path}`, { method: 'GET', headers: {}, ...init })
  const answer = await text(response.body)
  const isJson = /^application\/(problem\+)?json/.test(response.headers.get('content-type') ?? '')
  const body: unknown = answer === '' ? null : isJson ? JSON.parse(answer) : answer
  return checked(t, { status: response.status, headers: response.headers, body }, path)
}

const bearer = { authorization: `Bearer ${token}` }

const raw = async (t: Test, ...lines: readonly string[]): Promise<SeenResponse> =>
  checked(t, await sendRaw(t, service.url, head(...lines)))

const allMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

t.test('404 for unknown paths, with any method and body', async (t) => {
  for (const path of ['/nope', '/Tasks', '//tasks', `/tasks/${newId()}/nope`, '/.env', '/tasks.json']) {
    for (const method of allMethods) {
      const { status, body } = await fetchPath(t, path, { method })
      t.equal(status, 404, `${method} ${path}`)
      if (method !== 'HEAD') t.match(body, { code: 'not_found' })
    }
  }
  const broken = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' }
  t.equal((await fetchPath(t, '/nope', broken)).status, 404)
})

t.test('404 for paths with an empty id or a trailing slash, with and without a token', async (t) => {
  const withIds = [...new Set(operations.map(({ path }) => path))]
    .filter((path) => path.includes('{'))
    .map((path) => path.replaceAll(/\{\w+\}/g, ''))
  const withSlash = operations.map(({ path }) => `${path.replaceAll(/\{\w+\}/g, newId())}/`)
  for (const path of new Set([...withIds, ...withSlash, '/problems/'])) {
    for (const init of [{ method: 'POST' }, { headers: bearer }]) {
      const { status, body } = await fetchPath(t, path, init)
      t.match({ status, body }, { status: 404, body: { code: 'not_found' } }, path)
    }
  }
})

t.test('404 for the asterisk form of a request target', async (t) => {
  for (const method of allMethods.filter((method) => method !== 'HEAD')) {
    const { status, body } = await raw(t, `${method} * HTTP/1.1`, 'Host: x', 'Connection: close')
    t.equal(status, 404, method)
    t.match(body, { code: 'not_found', instance: '/*' })
  }
})

t.test('405 with Allow for methods that a path does not have', async (t) => {
  const methodsOf = (path: string): string[] => {
    const methods = operations.filter((operation) => operation.path === path).map(({ method }) => method)
    return methods.includes('GET') ? [...methods, 'HEAD'] : methods
  }
  const paths = new Map(operations.map(({ path }) => [path, methodsOf(path)]))
  for (const page of ['/', '/docs', '/problems', '/problems/not_found']) paths.set(page, ['GET', 'HEAD'])
  for (const [path, methods] of paths) {
    for (const method of allMethods.filter((method) => !methods.includes(method))) {
      const { status, headers, body } = await fetchPath(t, path.replaceAll(/\{\w+\}/g, newId()), { method })
      const allow = methods.toSorted().join(', ')
      const detail = `${method} is not allowed. Allowed: ${allow}.`
      t.match(
        { status, allow: headers.get('allow'), body },
        {
          status: 405,
          allow: new RegExp(`^${allow}$`),
          body: method === 'HEAD' ? null : { code: 'method_not_allowed', detail },
        },
        `${method} ${path}`,
      )
    }
  }
  const { status, headers } = await raw(t, 'TRACE /tasks HTTP/1.1', 'Host: x')
  t.equal(status, 405)
  t.equal(headers.get('allow'), 'GET, HEAD, POST')
})

t.test('HEAD of a page has the headers of GET, and no body', async (t) => {
  for (const path of ['/', '/docs']) {
    const got = await fetchPath(t, path, { headers: bearer })
    const { status, headers, body } = await fetchPath(t, path, { method: 'HEAD', headers: bearer })
    t.equal(status, 200, path)
    t.equal(body, null)
    t.equal(headers.get('content-type'), got.headers.get('content-type'))
    t.equal(headers.get('content-length'), got.headers.get('content-length'))
    t.equal(headers.get('etag'), got.headers.get('etag'))
  }
})

t.test('400 for a URL that is not UTF-8', async (t) => {
  for (const path of ['/%ff', '/tasks/%E0%A4%A', '/tasks/%', '/problems/%c0%af']) {
    const { status, body } = await fetchPath(t, path, { headers: bearer })
    t.equal(status, 400, path)
    t.match(body, { code: 'invalid_request' })
  }
  for (const query of ['q=%ff', 'q=%', 'q=%00', '%ff=1', 'q=a%00b']) {
    const { status } = await fetchPath(t, `/tasks?${query}`, { headers: bearer })
    t.equal(status, 400, query)
  }
})

t.test('400, 414 or 431 for an over-long id, path or URL', async (t) => {
  const { body } = await service.expect('getTask', 400, { token, params: { task_id: 'a'.repeat(1_024) } })
  t.equal(body.errors?.[0]?.pointer, '/task_id')
  const long = await fetchPath(t, `/tasks/${'a'.repeat(1_025)}`, { headers: bearer })
  t.equal(long.status, 414)
  t.match(long.body, { code: 'uri_too_long' })
  for (const [length, status] of [
    [8_000, 404],
    [60_000, 414],
  ] as const) {
    const response = await fetch(`${service.url}/${'é'.repeat(length / 10)}${'a'.repeat((length * 2) / 5)}`)
    t.equal(response.status, status)
    const text = await response.text()
    t.ok(text.length < 1_000, 'the response is short')
    t.match(JSON.parse(text), { instance: /^\/(%[0-9A-F]{2})+\.\.\.$/ })
  }
  const longer = await raw(t, `GET /tasks?q=${'a'.repeat(70_000)} HTTP/1.1`, 'Host: x')
  t.equal(longer.status, 431)
})

t.test('over-long paths are truncated in the log', async (t) => {
  const lines: string[] = []
  const logged = await startService(t, {
    db: service.deps.db,
    config: { logLevel: 'info' },
    logStream: { write: (line) => void lines.push(line) },
  })
  t.equal((await fetch(`${logged.url}/${'a'.repeat(60_000)}`)).status, 414)
  await eventually('the request is logged', async () => lines.some((line) => line.includes('aaa')))
  for (const line of lines) t.ok(line.length < 1_000)
})

t.test('400 for malformed HTTP, and the connection is closed', async (t) => {
  const requests = [
    'NONSENSE\r\n\r\n',
    'GET\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    head('GET / HTTP/1.1', 'Host: x', 'no colon'),
    head('GET / HTTP/1.1', 'Host: x', 'X-A: a\u0000b'),
    head('POST /tasks HTTP/1.1', 'Host: x', 'Content-Length: -1'),
    head('POST /tasks HTTP/1.1', 'Host: x', 'Content-Length: 3', 'Content-Length: 4'),
    head('POST /tasks HTTP/1.1', 'Host: x', 'Content-Length: 3', 'Transfer-Encoding: chunked'),
    head('GET / HTTP/1.1'),
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  ]
  for (const request of requests) {
    await t.test(JSON.stringify(request), async (t) => {
      const { socket, answer } = await openRaw(t, service.url)
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.write(request, 'latin1')
      const { status, headers, body } = checked(t, await answer())
      t.equal(status, 400)
      t.match(body, { code: 'invalid_request' })
      t.equal(headers.get('connection'), 'close')
      await closed
    })
  }
  t.equal((await fetchPath(t, '/health/live')).status, 200, 'the service keeps running')
})

t.test('400 for a malformed chunk of a body', async (t) => {
  const lines = [
    'POST /tasks HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
  ]
  const { status } = await raw(t, ...lines, 'Transfer-Encoding: chunked', '', 'zz')
  t.equal(status, 400)
})

t.test('431 for a header that is too large', async (t) => {
  const { status, headers, body } = await raw(
    t,
    'GET / HTTP/1.1',
    'Host: x',
    `X-Large: ${'a'.repeat(70_000)}`,
  )
  t.equal(status, 431)
  t.equal(headers.get('connection'), 'close')
  t.match(body, { code: 'header_fields_too_large' })
})

t.test('417 for an unknown expectation', async (t) => {
  const { status, body } = await raw(t, 'GET / HTTP/1.1', 'Host: x', 'Expect: miracles')
  t.equal(status, 417)
  t.match(body, { code: 'expectation_failed' })
})

t.test('a body of the maximum size is read', async (t) => {
  const body = `{"title":"${'x'.repeat(maxBodyBytes - 12)}"}`
  const headers = { 'content-type': 'application/json' }
  const refused = await service.expect('createTask', 400, { token, body, headers })
  t.match(refused.body.errors, [{ pointer: '/title' }])
})

t.test('400 for malformed or dangerous JSON', async (t) => {
  const deep = 100_000
  const bodies: readonly (string | Uint8Array)[] = [
    '',
    ' ',
    '{',
    '{"title":"a"}}',
    '{"title":"a",}',
    "{'title':'a'}",
    'null',
    '[]',
    '"title"',
    '1',
    'NaN',
    '{"title":'.concat('['.repeat(deep), ']'.repeat(deep), '}'),
    '{"title":'.concat('['.repeat(deep)),
    '{"a":'.repeat(deep).concat('1', '}'.repeat(deep)),
    '{"title":"a","__proto__":{"polluted":true}}',
    '{"title":"a","\\u005f_proto__":{"polluted":true}}',
    '{"title":"a","constructor":{"prototype":{"polluted":true}}}',
    '{"title":"a","toString":"b"}',
    '{"title":"a\\u0000"}',
    '{"title":"a","description":"\\u0000"}',
    '{"title":"a","\\u0000":1}',
    '{"title":"\\ud800"}',
    '{"title":"a","description":"\\udc00 a"}',
    '{"\\ud800":"a","title":"a"}',
    Buffer.from('{"title":"\xff"}', 'latin1'),
    Buffer.from('{"title":"a\xc0\x80"}', 'latin1'),
    Buffer.from('{"title":"a\xed\xa0\x80"}', 'latin1'),
    Buffer.from('\uFEFF{"title":"a"}', 'utf16le'),
  ]
  const countTasks = async () =>
    (await service.expect('listTasks', 200, { token, query: { include_total: true } })).body.total
  const before = await countTasks()
  for (const body of bodies) {
    const { body: problem } = await service.expect('createTask', 400, {
      token,
      body,
      headers: { 'content-type': 'application/json' },
    })
    t.equal(problem.code, 'invalid_request', String(body).slice(0, 40))
    t.notMatch(JSON.stringify(problem), leaks)
  }
  t.notOk('polluted' in {}, 'prototypes are not polluted')
  t.equal(await countTasks(), before, 'nothing was created')
})

/** Sends a body with an unmodified Content-Type, or with none if it is null. */
const send = async (t: Test, method: string, path: string, type: string | null, body: string) => {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${token}`,
    ...(type === null ? [] : [`Content-Type:${type}`]),
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  return checked(t, await sendRaw(t, service.url, `${head(...lines)}${body}`))
}

t.test('no Content-Type bypasses the validation of the body', async (t) => {
  const accepted = [
    'application/json',
    '  application/json',
    '\tapplication/json',
    'APPLICATION/JSON',
    'Application/Json ; Charset=UTF-8',
    'application/json;charset="utf-8"',
    'application/json; charset=utf8',
    'application/json; profile=x',
  ]
  const refused = [
    null,
    '',
    ' ',
    'text/plain',
    'json',
    'application/jsonx',
    'application/json junk',
    'application/json/x',
    'application/json, text/plain',
    'text/plain, application/json',
    'text/plain; application/json',
    'application/json; charset=latin1',
    'application/json; charset=utf-16',
    'application/problem+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'multipart/form-data',
    '*/*',
    '*',
    'application/*',
  ]
  const ambiguous = [
    'application/json;',
    'application/json;;',
    'application/json; charset',
    'application/json; =',
    'application/json;multipart/form-data',
    'application/json; charset=utf-8; charset=latin1',
  ]
  for (const type of [...accepted, ...refused, ...ambiguous]) {
    const { status, body } = await send(t, 'POST', '/tasks', type, '{"title":"a","bogus":1}')
    const isAccepted = accepted.some((one) => one === type)
    if (isAccepted) t.match(body, { status: 400, errors: [{ pointer: '/bogus' }] }, String(type))
    else if (ambiguous.includes(String(type))) t.ok([400, 415].includes(status), `${type}: ${status}`)
    else t.match(body, { status: 415, code: 'unsupported_media_type' }, String(type))
  }
  for (const type of accepted)
    t.equal((await send(t, 'POST', '/tasks', type, '{"title":"a"}')).status, 201, type)
})

t.test('operations without a body accept an empty one of any media type', async (t) => {
  const { body: tag } = await service.expect('createTag', 201, { token, body: { name: 'linked' } })
  const types = [
    null,
    'application/json',
    'text/plain',
    'multipart/form-data; boundary=x',
    'multipart/form-data',
    'nonsense',
    ';',
    'a/b/c',
    '',
  ]
  for (const type of types) {
    const task = await newTask(ada)
    const link = `/tasks/${task.id}/tags/${tag.id}`
    t.equal((await send(t, 'POST', link, type, '')).status, 204, `POST ${type}`)
    t.equal((await send(t, 'DELETE', link, type, '')).status, 204, `DELETE ${type}`)
    const nothing = [`DELETE /tasks/${task.id} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`]
    const chunked = [
      ...nothing,
      'Transfer-Encoding: chunked',
      ...(type === null ? [] : [`Content-Type:${type}`]),
    ]
    const { status } = checked(t, await sendRaw(t, service.url, `${head(...chunked)}0\r\n\r\n`))
    t.equal(status, 204, `DELETE ${type}, chunked`)
  }
})

t.test('order of checks', async (t) => {
  const patch = (body: string, headers: Record<string, string>, id: string = newId()) =>
    fetchPath(t, `/tasks/${id}`, {
      method: 'PATCH',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    })
  const stale = { 'if-match': '"0"' }
  const stranger = await service.register('stranger')
  const assignee = await service.register('assignee')
  const task = await newTask(ada, { assignee_id: assignee.id })
  const params = { task_id: task.id }
  const unknown = { assignee_id: newId() }

  t.test('415 before 413', async (t) => {
    const lines = [
      'POST /tasks HTTP/1.1',
      'Host: x',
      `Authorization: Bearer ${token}`,
      'Content-Length: 9999999',
    ]
    t.equal((await raw(t, ...lines, 'Content-Type: text/plain')).status, 415)
    const form = [
      `POST /tasks/${task.id}/attachments HTTP/1.1`,
      ...lines.slice(1),
      'Content-Type: text/plain',
    ]
    t.equal((await raw(t, ...form)).status, 415)
  })

  t.test('413 before 400', async (t) => {
    t.equal((await patch('x'.repeat(maxBodyBytes + 1), bearer, 'not-an-id')).status, 413)
  })

  t.test('400 before 404', async (t) => {
    t.equal((await patch('{"bogus":1}', bearer)).status, 400)
    t.equal((await patch('{"title":"a"}', { ...bearer, 'if-match': 'no quotes' })).status, 400)
    t.equal((await patch('{"title":"a"}', bearer)).status, 404)
  })

  t.test('400 before 403', async () => {
    await service.expect('createUser', 400, { token, body: {} })
    const user = { username: 'new', email: 'new@example.com', password: 'long enough' }
    await service.expect('createUser', 403, { token, body: user })
  })

  t.test('404 before 403 and 412', async (t) => {
    await service.expect('deleteTask', 404, { token: stranger.token, params, headers: stale })
    const { status, body } = await patch('{"title":"a"}', { ...bearer, ...stale })
    t.equal(status, 404)
    t.match(body, { code: 'not_found' })
  })

  t.test('404 before 422', async (t) => {
    t.equal((await patch(JSON.stringify(unknown), bearer)).status, 404)
  })

  t.test('403 before 412', async (t) => {
    const { body } = await service.expect('deleteTask', 403, {
      token: assignee.token,
      params,
      headers: stale,
    })
    t.equal(body.code, 'forbidden')
  })

  t.test('403 before 409', async () => {
    const conflict = { params: { user_id: ada.id }, body: { username: 'admin' } }
    await service.expect('updateUser', 403, { token: stranger.token, ...conflict })
    await service.expect('updateUser', 409, { token, ...conflict })
  })

  t.test('412 before 409', async () => {
    const body = { username: 'admin' }
    await service.expect('updateUser', 412, { token, params: { user_id: ada.id }, body, headers: stale })
    const admins = { token: admin.token, params: { user_id: admin.id } }
    await service.expect('deleteUser', 412, { ...admins, headers: stale })
    await service.expect('deleteUser', 409, admins)
  })

  t.test('412 before 422', async () => {
    await service.expect('updateTask', 412, { token, params, body: unknown, headers: stale })
    await service.expect('updateTask', 422, { token, params, body: unknown })
  })
})

t.test('Content-Encoding: identity is accepted', async () => {
  const headers = { 'content-encoding': 'identity' }
  await service.expect('createTask', 201, { token, headers, body: { title: 'Not compressed' } })
})

t.test('the type of a problem is the URL of its description', async (t) => {
  const { body } = await fetchPath(t, '/nope')
  const { type } = body as { type: string }
  t.match((await fetchPath(t, type)).body, { code: 'not_found', status: 404 })
})

const linksIn = (html: unknown): string[] =>
  [...String(html).matchAll(/(?:href|src)="(?!data:)([^"]*)"/g)].map(([, link]) => link ?? '')

t.test('the contract is served unchanged, and as JSON', async (t) => {
  const file = await readFile(new URL('../openapi.yaml', import.meta.url))
  const yaml = await service.expect('getContract', 200)
  t.ok(file.equals(yaml.body as unknown as Uint8Array), 'byte for byte')
  // V8 stores a string with such a character, and its substrings, with two bytes per character: every response would be slower.
  t.notMatch(file.toString(), /[^\0-\xff]/, 'no character past U+00FF')
  t.match(yaml.headers.get('content-type'), /^application\/yaml/)
  const json = await service.expect('getContractJson', 200)
  t.strictSame(json.body, parseYaml(file.toString()), 'the same as JSON')
  t.not(yaml.headers.get('etag'), json.headers.get('etag'))
})

t.test('500 discloses no internals', async (t) => {
  const { db } = service.deps
  await db.run('alter table tags rename to hidden_tags', [])
  t.teardown(() => db.run('alter table hidden_tags rename to tags', []))
  const { status, body } = await fetchPath(t, '/tags', { headers: bearer })
  t.equal(status, 500)
  t.match(body, { code: 'internal_error' })
  t.notMatch(JSON.stringify(body), /hidden_tags|42P01|exist/)
})

t.test('with a path in PUBLIC_URL', async (t) => {
  const publicUrl = 'https://tasks.example/api'
  const proxied = await startService(t, { db: service.deps.db, config: { publicUrl } })
  const { token } = ada
  const headers = { authorization: `Bearer ${token}` }

  t.test('URLs in responses start with PUBLIC_URL', async (t) => {
    const { body, headers } = await proxied.expect('createTask', 201, { token, body: { title: 'Far away' } })
    t.equal(headers.get('location'), `${publicUrl}/tasks/${body.id}`)
    await proxied.expect('createTask', 201, { token, body: { title: 'Another' } })
    const list = await proxied.expect('listTasks', 200, { token, query: { limit: 1 } })
    const link = list.headers.get('link') ?? ''
    t.match(link, `<${publicUrl}/tasks?limit=1>; rel="first"`)
    t.match(link, `<${publicUrl}/tasks?limit=1&cursor=`)
    const missing = await proxied.expect('getTask', 404, { token, params: { task_id: newId() } })
    t.equal(missing.body.type, `${publicUrl}/problems/not_found`)
    const broken = checked(t, await sendRaw(t, proxied.url, 'NONSENSE\r\n\r\n'))
    t.match(broken.body, { type: `${publicUrl}/problems/invalid_request` })
  })

  t.test('requests work with and without the path', async (t) => {
    for (const path of ['/tasks', '/', '/docs', '/openapi.json', '/problems/not_found']) {
      const without = await fetchPath(t, path, { headers }, proxied)
      const withIt = await fetchPath(t, `/api${path}`, { headers }, proxied)
      t.equal(without.status, 200, path)
      t.same(withIt.body, without.body)
    }
    t.equal((await fetchPath(t, '/api', {}, proxied)).status, 200, 'the path alone is the root page')
    for (const path of ['/apitasks', '/api/api/tasks', '/API/tasks'])
      t.equal((await fetch(`${proxied.url}${path}`, { headers })).status, 404, path)
  })

  t.test('links on the pages start with the path', async (t) => {
    for (const page of ['/api/', '/api/docs', '/api/problems/not_found']) {
      const { body } = await fetchPath(t, page, { headers: { accept: 'text/html' } }, proxied)
      const links = linksIn(body)
      t.ok(links.length > 0)
      for (const link of links) {
        t.ok(link.startsWith('/api/'), link)
        t.equal((await fetchPath(t, link, {}, proxied)).status, 200, link)
      }
    }
  })
})

t.test('503 for new requests during a stop; running ones are finished', async (t) => {
  const stopping = await startService(t, { db: service.deps.db })
  const { token } = ada
  const running = await openRaw(t, stopping.url)
  const body = '{"title":"Begun before the stop"}'
  const lines = [
    'Host: x',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    'Expect: 100-continue',
  ]
  running.socket.write(head('POST /tasks HTTP/1.1', ...lines, `Content-Length: ${body.length}`))
  t.equal((await running.answer()).status, 100, 'a request is running')
  const late = await openRaw(t, stopping.url)
  // Half of a second request keeps the connection from being idle when the stop begins.
  late.socket.write(`${head('GET /health/live HTTP/1.1', 'Host: x')}GET /tasks HTTP/1.1\r\nHost: x\r\n`)
  t.equal((await late.answer()).status, 200)

  const closed = stopping.app.close()
  await eventually('the service no longer listens', async () => !stopping.app.server.listening)
  late.socket.write('\r\n')
  const refused = checked(t, await late.answer())
  t.equal(refused.status, 503)
  t.match(refused.body, { code: 'service_unavailable' })
  t.equal(refused.headers.get('retry-after'), '2')
  t.equal(refused.headers.get('connection'), 'close')

  running.socket.write(body)
  const finished = await running.answer()
  t.equal(finished.status, 201, 'the running request is finished')
  t.equal(finished.headers.get('connection'), 'close')
  await closed
})
