import { monitorEventLoopDelay } from 'node:perf_hooks'
import t, { type Test } from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { lookUp } from '../../scripts/client/contract-check.ts'
import { head, sendRaw } from '../fixture/raw.ts'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { type Account, type Call, fileForm, type Reply, startService } from '../fixture/service.ts'
import { tusHeaders } from '../fixture/uploads.ts'

/** The validation of requests, independent of the operation. */

const service = await startService(t)
const ada = await service.register('ada')
const { token } = ada
const json = { 'content-type': 'application/json' }

const newTask = async ({ token }: Account) =>
  (await service.expect('createTask', 201, { token, body: { title: 'A task' } })).body

const pointersOf = ({ body }: Pick<Reply, 'body'>): readonly string[] =>
  ((body as { errors?: readonly { pointer: string }[] } | null)?.errors ?? []).map(({ pointer }) => pointer)

t.test('all errors of a request are reported together', async (t) => {
  const body = { title: '', status: 'lost', priority: 1, tag_ids: ['x', newId()], color: 'red' }
  const many = await service.expect('createTask', 400, {
    token,
    body,
    headers: { 'idempotency-key': 'a key' },
  })
  t.same(pointersOf(many), ['/color', '/title', '/status', '/priority', '/tag_ids/0', '/Idempotency-Key'])
  t.match(many.body, {
    detail:
      'color is not a known field. Expected one of: title, description, status, priority, start_at, start_on, due_at, due_on, owner_id, assignee_id, project_id, section_id, parent_id, recurrence, metadata, external_source, external_id, tag_ids, tag_names. 5 more in errors.',
    errors: [
      { pointer: '/color', detail: /^is not a known field\. Expected one of: title, / },
      { pointer: '/title', detail: 'must have at least 1 character' },
      { pointer: '/status', detail: 'must be one of todo, in_progress, done, cancelled' },
      { pointer: '/priority', detail: 'must be a string' },
      { pointer: '/tag_ids/0', detail: 'must be a UUID' },
      {
        pointer: '/Idempotency-Key',
        detail: 'must have only visible ASCII characters, without spaces',
      },
    ],
  })

  const request = {
    token,
    params: { task_id: 'x' },
    query: { limit: 'many', page: 2 },
    body: { title: null },
  }
  const parts = await service.expect('updateTask', 400, request)
  t.same(pointersOf(parts), ['/task_id', '/title', '/limit', '/page'], 'of path, body and query')
  t.match(parts.body.errors?.[2], { detail: /^is not a known parameter\. None is expected$/ })

  const missing = await service.call('register', { body: {} })
  t.same(pointersOf(missing), ['/username', '/email', '/password'])
  const query = { limit: 'many', status: 'lost', q: '', sort: 'size', nope: 1 }
  const list = await service.expect('listTasks', 400, { token, query })
  t.same(pointersOf(list).toSorted(), ['/limit', '/nope', '/q', '/sort', '/status/0'])
  t.match(
    list.body.errors?.find(({ pointer }) => pointer === '/sort'),
    { detail: /prefix with - for descending/ },
  )
})

t.test('at most twenty errors are reported, one per field', async (t) => {
  const items = Array.from({ length: 200 }, () => ({ title: '', status: 'lost' }))
  const { body } = await service.expect('batchTasks', 400, { token, body: { create: items } })
  t.equal(body.errors?.length, 20)
  t.equal(new Set(pointersOf({ body })).size, 20)
  t.match(body, { detail: /\. 19 more in errors\.$/ })

  const create = Array.from({ length: 30 }, () => ({ title: 'A task', tag_ids: [newId()] }))
  const atomic = await service.expect('batchTasks', 422, { token, body: { atomic: true, create } })
  t.same(
    pointersOf(atomic),
    Array.from({ length: 20 }, (_, index) => `/create/${index}/tag_ids/0`),
    'also in an atomic batch',
  )
})

t.test('only the first error of a very large body is reported', async (t) => {
  const unknown = Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`k${index}`, 0]))
  const numbers = Array.from({ length: 300_000 }, () => 0)
  for (const [body, pointers] of [
    [{ create: numbers }, ['/create']],
    [{ create: [{ title: 'a', tag_ids: numbers }] }, ['/create/0/tag_ids']],
    [unknown, ['/k0']],
    [{ create: [unknown] }, ['/create/0/title']],
  ] as const) {
    const refused = await service.expect('batchTasks', 400, { token, body })
    t.same(pointersOf(refused), pointers)
  }
})

t.test('400 for a query with more than a hundred different parameters', async (t) => {
  const query = (count: number) => Array.from({ length: count }, (_, index) => `k${index}=1`).join('&')
  const { body } = await service.expect('listTasks', 400, { token, query: query(100) })
  t.equal(body.errors?.length, 20)
  const tooMany = await service.expect('listTasks', 400, { token, query: query(8_000) })
  t.match(tooMany.body, {
    detail: 'The query must have at most 100 different parameters.',
    errors: undefined,
  })
})

t.test('400 for duplicate keys', async (t) => {
  for (const [body, pointers] of [
    ['{"title":"a","title":"b"}', ['/title']],
    ['{"title":"a","t\\u0069tle":"b"}', ['/title']],
    ['{"title":"a","description":"x","description":"y","title":"b"}', ['/description', '/title']],
    ['{"title":{"a":[1,{"b/c":1,"b/c":2}]}}', ['/title/a/1/b~1c']],
    ['{"":1,"":2}', ['/']],
  ] as const) {
    const refused = await service.expect('createTask', 400, { token, body, headers: json })
    t.same(pointersOf(refused), pointers, body)
    t.match(refused.body.errors?.[0], { detail: 'must not appear more than once' })
  }
  const many = `{${Array.from({ length: 100 }, (_, index) => `"k${index}":1,"k${index}":2`).join()}}`
  t.equal(
    pointersOf(await service.expect('createTask', 400, { token, body: many, headers: json })).length,
    20,
  )
  const batch = '{"create":[{"title":"title"},{"title":"title"}],"delete":[]}'
  await service.expect('batchTasks', 200, { token, body: batch, headers: json })
})

t.test('400 for a body with more than a hundred levels', async (t) => {
  const nested = (levels: number) => `{"title":${'['.repeat(levels)}${']'.repeat(levels)}}`
  const { body } = await service.expect('createTask', 400, { token, body: nested(99), headers: json })
  t.same(pointersOf({ body }), ['/title'])
  const deep = await service.expect('createTask', 400, { token, body: nested(100), headers: json })
  t.match(deep.body, { detail: 'The body is nested more than 100 levels deep.' })
})

t.test('ids are case-insensitive', async (t) => {
  const upper = ({ id }: { readonly id: string }) => id.toUpperCase()
  const task = await newTask(ada)
  const tag = (await service.expect('createTag', 201, { token, body: { name: 'release' } })).body
  const got = await service.expect('getTask', 200, { token, params: { task_id: upper(task) } })
  t.equal(got.body.id, task.id)
  const created = await service.expect('createTask', 201, {
    token,
    body: { title: 'Another', assignee_id: upper(ada.user), tag_ids: [upper(tag)] },
  })
  t.match(created.body, { assignee_id: ada.id, tags: [{ id: tag.id }] })
  const query = { tag_id: [upper(tag), tag.id], tag_match: 'all', owner_id: upper(ada.user) }
  const { body: list } = await service.expect('listTasks', 200, { token, query })
  t.same(
    list.items.map(({ id }) => id),
    [created.body.id],
  )
  const filter = `id = "${upper(task)}" AND owner_id = ${upper(ada.user)}`
  const { body: found } = await service.expect('listTasks', 200, { token, query: { filter } })
  t.same(
    found.items.map(({ id }) => id),
    [task.id],
  )
  const { body: results } = await service.expect('batchTasks', 200, {
    token,
    body: { delete: [{ task_id: upper(task) }] },
  })
  t.match(results.delete, [{ status: 204, task_id: task.id }])
  const tagETag = (await service.expect('getTag', 200, { token, params: { tag_id: upper(tag) } })).headers
  t.equal(tagETag.get('etag'), `"${tag.id}"`)
  const { body: replaced } = await service.expect('createTask', 201, {
    token,
    body: { title: 'x', tag_ids: [upper(tag)] },
  })
  const twice = [
    { task_id: replaced.id, patch: { tag_ids: [] } },
    { task_id: upper(replaced), patch: { tag_ids: [upper(tag)] } },
  ]
  const { body: inOrder } = await service.expect('batchTasks', 200, { token, body: { update: twice } })
  t.same(
    inOrder.update.map(({ etag }) => etag),
    ['"2"', '"3"'],
    'items for the same task',
  )
})

t.test('413 for a body over the limit of its operation', async (t) => {
  const withJson = operations.filter(({ mediaTypes }) => mediaTypes.includes('application/json'))
  const { newWorld, requestTo } = await prepareOperations(service, ada)
  const world = await newWorld()
  t.equal(
    withJson.filter(({ maxBody }) => maxBody === 1_048_576).length,
    11,
    'few operations have the large limit',
  )
  for (const operation of withJson) {
    const { maxBody } = operation
    t.ok(maxBody === 16_384 || maxBody === 1_048_576, operation.id)
    const request = await requestTo(operation, { world })
    const padded = (size: number) => JSON.stringify(request.body ?? {}).padEnd(size)
    const send = (size: number) =>
      service.call(operation.id, { ...request, body: padded(size), headers: { ...request.headers, ...json } })
    const { status, body } = await send(maxBody + 1)
    t.equal(status, 413, operation.id)
    t.match(body, { code: 'content_too_large', detail: `The limit is ${maxBody} bytes.` })
  }
  const login = { email: 'nobody@example.com', password: 'x' }
  const atLimit = await service.call('login', { body: JSON.stringify(login).padEnd(16_384), headers: json })
  t.equal(atLimit.status, 401, 'a body of the maximum size is read')

  const body = ReadableStream.from([Buffer.from(JSON.stringify(login).padEnd(16_385))])
  const init = { method: 'POST', headers: json, body, duplex: 'half' } as const
  t.equal((await fetch(`${service.url}/auth/login`, init)).status, 413, 'also without a Content-Length')
  const announced = head(
    'POST /auth/login HTTP/1.1',
    'Host: x',
    'Content-Type: application/json',
    'Content-Length: 16385',
  )
  t.equal((await sendRaw(t, service.url, announced)).status, 413, 'before the body is sent')
})

/** Combining marks of several classes, which normalization sorts in quadratic time. */
const marks = (count: number): string => '\u0316\u0301'.repeat(count / 2)

/** A request with an attacker's text in one place, and the pointer to that place. */
interface Attack {
  readonly pointer: string
  readonly send: (text: string) => Promise<Reply>
  /** The maximum length, in code units. */
  readonly room: number
}

const attacks = async (): Promise<Readonly<Record<string, Attack>>> => {
  const task = await newTask(ada)
  const params = { task_id: task.id }
  const inBody = (
    operation: Parameters<typeof service.call>[0],
    pointer: string,
    body: (text: string) => object,
    room: number,
    request: Call = {},
  ) => ({
    pointer,
    room,
    send: (text: string) => service.call(operation, { token, ...request, body: body(text) }),
  })
  const small = 7_000
  const large = 500_000
  const account = { username: 'mallory', email: 'mallory@example.com', password: 'a long password' }
  return {
    'login password': inBody('login', '/password', (password) => ({ email: account.email, password }), small),
    'login email': inBody(
      'login',
      '/email',
      (text) => ({ email: `a${text}@example.com`, password: 'x' }),
      small,
    ),
    'register password': inBody('register', '/password', (password) => ({ ...account, password }), small),
    'register email': inBody(
      'register',
      '/email',
      (text) => ({ ...account, email: `${text}@example.com` }),
      small,
    ),
    'display name': inBody(
      'register',
      '/display_name',
      (text) => ({ ...account, display_name: `a${text}` }),
      small,
    ),
    'forgotten password': inBody(
      'forgotPassword',
      '/email',
      (text) => ({ email: `a${text}@example.com` }),
      small,
    ),
    'tag name': inBody('createTag', '/name', (name) => ({ name }), small),
    'token name': inBody('createApiToken', '/name', (name) => ({ name, scopes: ['tasks:read'] }), small),
    title: inBody('createTask', '/title', (title) => ({ title }), large),
    'changed title': inBody('updateTask', '/title', (title) => ({ title }), large, { params }),
    description: inBody('createTask', '/description', (description) => ({ title: 'a', description }), large),
    'title in a batch': inBody(
      'batchTasks',
      '/create/1/title',
      (title) => ({ create: [{ title: 'a' }, { title }] }),
      large,
    ),
    'escaped title': {
      pointer: '/title',
      room: 160_000,
      send: (text) => {
        const escaped = text.replaceAll(
          /[^ -~]/g,
          (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
        )
        return service.call('createTask', { token, body: `{"title":"${escaped}"}`, headers: json })
      },
    },
    q: { pointer: '/q', room: 9_000, send: (q) => service.call('listTasks', { token, query: { q } }) },
    filter: {
      pointer: '/filter',
      room: 9_000,
      send: (filter) => service.call('listTasks', { token, query: { filter } }),
    },
    'q of tags': {
      pointer: '/q',
      room: 9_000,
      send: (q) => service.call('listTags', { token, query: { q } }),
    },
    'q of users': {
      pointer: '/q',
      room: 9_000,
      send: (q) => service.call('listUsers', { token, query: { q } }),
    },
    'file name': {
      pointer: '/file',
      room: 7_000,
      send: (name) => service.call('addTaskAttachment', { token, params, body: fileForm('x', name) }),
    },
    'file name of an upload': {
      pointer: '/Upload-Metadata',
      room: 1_400,
      send: (filename) =>
        service.call('createUpload', { token, params, headers: tusHeaders(1, { filename }) }),
    },
  }
}

t.test('no text blocks the event loop by its normalization', async (t) => {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  for (const [place, { pointer, send, room }] of Object.entries(await attacks())) {
    await t.test(place, async (t) => {
      delay.reset()
      delay.enable()
      for (const length of [32, 160, room]) {
        const { status, body } = await send(marks(length))
        t.equal(status, 400, `${length} marks`)
        t.same(pointersOf({ body }), [pointer])
        // A longer file name may be refused by its length.
        if (length === 32)
          t.match(body, { errors: [{ detail: /at most 30 consecutive combining marks/ }] }, 'names the cause')
      }
      // Each run is legal, but the text is too long, and is refused before it is normalized.
      const long = await send(`a${marks(30)}`.repeat(Math.floor(room / 31)))
      if (pointer !== '/description') t.equal(long.status, 400)
      t.ok(delay.max < 1.5e9, `the event loop was blocked for ${delay.max / 1e6} ms`)
    })
  }
  delay.disable()
})

t.test('413 for a large body where texts are short', async (t) => {
  for (const bytes of [160_000, 900_000]) {
    const password = marks(bytes / 2)
    for (const operation of ['login', 'register'] as const) {
      const { status } = await service.call(operation, { body: { email: 'ada@example.com', password } })
      t.equal(status, 413)
    }
  }
})

t.test('thirty consecutive marks are accepted', async (t) => {
  const title = `a${marks(30)} b${marks(30)}`
  const { body } = await service.expect('createTask', 201, { token, body: { title, description: title } })
  t.equal(body.title, title.normalize('NFC'))
  t.equal(body.description, title)
})

/** Requests are sent one at a time, so that none waits for another. */
const sendMetadata = async (t: Test, value: string): Promise<void> => {
  const headers = { ...tusHeaders(1), 'upload-metadata': value }
  const { status } = await service.call('createUpload', { token, params: { task_id: newId() }, headers })
  t.equal(status, 400, value.slice(0, 40))
}

t.test('no header blocks the event loop by its parsing', async (t) => {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  for (const value of [
    'a ,'.repeat(60),
    'a , '.repeat(1_000),
    `a ${'='.repeat(4_000)},`,
    'a  '.repeat(1_300),
    `a${' '.repeat(4_000)},,`,
  ])
    await sendMetadata(t, `${value}\u00e9`)
  t.ok(delay.max < 1.5e9, `the event loop was blocked for ${delay.max / 1e6} ms`)
  const { 'upload-metadata': metadata = '', ...headers } = tusHeaders(1)
  const params = { task_id: (await newTask(ada)).id }
  await service.expect('createUpload', 201, {
    token,
    params,
    headers: { ...headers, 'upload-metadata': `${metadata} , a ,b  , c  YQ==,d` },
  })
})

t.test('email addresses that are equal in lower case and NFKC are one account', async (t) => {
  const password = 'a long password'
  const pairs = [
    ['GROSS', 'gross'],
    ['ｗｉｄｅ', 'wide'],
    ['ﬁne', 'fine'],
  ] as const
  for (const [index, names] of pairs.entries()) {
    const emails = names.map((name) => `${name}@example.com`)
    const replies = await Promise.all(
      emails.map((email, at) =>
        service.call('register', { body: { username: `twin${index}${at}`, email, password } }),
      ),
    )
    t.same(new Set(replies.map(({ status }) => status)), new Set([201, 409]), emails.join())
    t.match(replies.find(({ status }) => status === 409)?.body, { code: 'email_taken' })
    for (const email of emails) await service.expect('login', 200, { body: { email, password } })
  }
})

t.test('400 for invisible characters in names, email addresses and titles', async (t) => {
  const account = { username: 'ghost', email: 'ghost@example.com', password: 'a long password' }
  for (const filler of [
    '\u115f',
    '\u1160',
    '\u3164',
    '\uffa0',
    '\u200b',
    '\u00ad',
    '\u034f',
    '\ufe0f',
    '\u2800',
    '\u{e0061}',
  ]) {
    const code = (filler.codePointAt(0) ?? 0).toString(16)
    const inEmail = await service.expect('register', 400, {
      body: { ...account, email: `gho${filler}st@example.com` },
    })
    t.same(pointersOf(inEmail), ['/email'], code)
    const inUsername = await service.expect('register', 400, {
      body: { ...account, username: `gho${filler}st` },
    })
    t.same(pointersOf(inUsername), ['/username'], code)
    const name = await service.expect('register', 400, {
      body: { ...account, display_name: ` ${filler}${filler} ` },
    })
    t.match(
      name.body.errors,
      [{ pointer: '/display_name', detail: 'must have at least one visible character' }],
      code,
    )
    const title = await service.expect('createTask', 400, { token, body: { title: filler } })
    t.same(pointersOf(title), ['/title'], code)
  }
  await service.expect('register', 201, { body: { ...account, display_name: '👩\u200d🚀' } })
})

t.test('PUT accepts every field that GET returns', async (t) => {
  const puts = operations.filter(({ method, path }) => method === 'PUT' && lookUp(['paths', path, 'get']))
  t.ok(puts.length >= 2)
  for (const { path, id } of puts) {
    const propertiesOf = (...pointer: string[]): string[] =>
      Object.keys(
        lookUp(['paths', path, ...pointer, 'content', 'application/json', 'schema', 'properties'])?.node ??
          {},
      )
    const accepted = new Set(propertiesOf('put', 'requestBody'))
    const returned = propertiesOf('get', 'responses', '200')
    t.ok(returned.length > 1, id)
    t.strictSame(
      returned.filter((name) => !accepted.has(name)),
      [],
      id,
    )
  }
})
