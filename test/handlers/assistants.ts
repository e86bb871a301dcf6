import { Ajv2020 } from 'ajv/dist/2020.js'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import {
  asArray,
  asObject,
  type Json,
  loadContract,
  type OperationId,
  resolve,
} from '../../src/contract/contract.ts'
import { currentWork } from '../../src/concurrency/work.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { version } from '../../src/domain/shared/version.ts'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { accountActions } from '../fixture/accounts.ts'
import { checkResponse } from '../../scripts/client/contract-check.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { connectAssistant, type Negotiation } from '../fixture/mcp.ts'
import { operations, prepareOperations, rows } from '../fixture/operations.ts'
import { type Call, type Service, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** The Model Context Protocol, with the official client and with malformed messages. */

type Schemas = components['schemas']

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const admin = await service.register('admin')
const ada = await service.register('ada')
const { createApiToken } = accountActions(service, admin)
const { createTask, readTask } = taskActions(service)

const tokenWith = async (...scopes: Schemas['Scope'][]): Promise<string> =>
  (await createApiToken(ada, { scopes })).token

const contract = loadContract()
const toolOperations = operations.filter(({ isTool }) => isTool)
const toolName = (id: string): string => id.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const message = (method: string, params?: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  ...(params && { params }),
})

const send = (body: unknown, more: Omit<Call, 'body'> = {}) =>
  service.call('sendMcpMessage', { token: ada.token, body, ...more })

const problemIn = (content: unknown) => content as Schemas['Problem']

for (const mode of ['legacy', 'auto'] satisfies Negotiation[]) {
  t.test(`sendMcpMessage, ${mode}: an assistant handles a task from creation to restoration`, async (t) => {
    const token = await tokenWith('tasks:write', 'tags:write', 'users:read')
    const { client, call } = await connectAssistant(t, service, token, mode)
    t.match(client.getServerVersion(), { name: 'taskwright', title: 'Taskwright', version: /^\d/ })
    t.equal(client.getNegotiatedProtocolVersion(), mode === 'legacy' ? '2025-11-25' : '2026-07-28')

    const { tools } = await client.listTools()
    t.ok(tools.some(({ name }) => name === 'create_task'))

    const me = await call('get_current_user')
    t.match(me, { isError: false, content: { id: ada.id, username: 'ada' } })
    const tag = await call('create_tag', { name: `from ${mode}` })
    const { id: tag_id } = tag.content as Schemas['Tag']
    const created = await call('create_task', {
      title: 'Book the venue',
      assignee_id: ada.id,
      tag_ids: [tag_id],
    })
    const task = created.content as Schemas['Task']
    t.match(task, { title: 'Book the venue', owner_id: ada.id, assignee_id: ada.id, status: 'todo' })
    t.strictSame(JSON.parse(created.text), task, 'the text is the content as JSON')

    await call('create_task', { title: 'Something else' })
    const found = await call('list_tasks', {
      tag_id: [tag_id],
      assignee_id: ['me'],
      status: ['todo', 'in_progress'],
      limit: 5,
    })
    t.match(found.content, { items: [{ id: task.id }] })
    t.equal((found.content as Schemas['TaskList']).items.length, 1)

    const done = await call('update_task', {
      task_id: task.id,
      status: 'done',
      if_match: task.version,
    })
    t.match(done, { isError: false, content: { id: task.id, status: 'done', version: task.version + 1 } })
    t.equal((await readTask(ada, task.id)).task.status, 'done', 'the HTTP API returns the same task')

    const tree = await call('batch_tasks', { create: [{ title: 'Plan' }, { title: 'Buy', parent: 0 }] })
    const [plan, step] = (tree.content as Schemas['TaskBatchResults']).create
    const { task: subtask } = await readTask(ada, step?.task_id ?? '')
    t.match(subtask, { title: 'Buy', parent_id: plan?.task_id })

    t.match(await call('remove_task_tag', { task_id: task.id, tag_id }), {
      isError: false,
      text: 'Remove a tag from a task: done.',
      content: null,
    })
    t.match(await call('delete_task', { task_id: task.id }), {
      isError: false,
      text: 'Delete a task: done.',
    })
    t.match((await call('get_task', { task_id: task.id })).content, { status: 404, code: 'not_found' })
    t.match(await call('restore_task', { task_id: task.id }), { isError: false, content: { id: task.id } })
  })
}

t.test('sendMcpMessage: the tools are the operations marked in the contract', async (t) => {
  const { client } = await connectAssistant(t, service, ada.token)
  const { tools } = await client.listTools()
  t.same(tools.map(({ name }) => name).toSorted(), toolOperations.map(({ id }) => toolName(id)).toSorted())
  t.ok(tools.length > 10)

  const unsafe = /^(auth|sessions|passwords|api-tokens|second-factor|audit|uploads|system|assistants)$/
  for (const { id, path, method } of toolOperations) {
    const node = asObject(asObject(asObject(contract.document.paths)[path])[method.toLowerCase()])
    if (id !== 'getCurrentUser') t.notMatch(String(asArray(node.tags)[0]), unsafe, id)
    const tool = tools.find(({ name }) => name === toolName(id))
    t.equal(tool?.title, node.summary)
    t.ok(tool?.description?.startsWith(`${String(node.summary)}. `), id)
    const creates = asObject(node.responses)['201'] !== undefined || id === 'batchTasks'
    t.strictSame(
      tool?.annotations,
      {
        readOnlyHint: method === 'GET',
        destructiveHint: ['PATCH', 'DELETE'].includes(method) || overwriting.has(id),
        idempotentHint: !creates,
        openWorldHint: false,
      },
      id,
    )
    t.notMatch(
      JSON.stringify(tool),
      /Repeat the parameter|[Pp]ercent-encode|comma-separated\.|merge patch|null clears|`[a-z]+[A-Z]/,
      `${id}: nothing about HTTP`,
    )
  }
})

/** Operations that overwrite data, though they neither replace nor delete a resource. */
const overwriting: ReadonlySet<string> = new Set(['moveTask', 'markNotificationsRead', 'batchTasks'])

t.test('sendMcpMessage: the list of all tools takes at most 64 KiB', async (t) => {
  const { headers, body } = await service.expect('sendMcpMessage', 200, {
    token: ada.token,
    body: message('tools/list'),
  })
  t.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  const size = Buffer.byteLength(JSON.stringify(body))
  t.ok(size <= 65_536, `${size} bytes`)
})

const { newWorld } = await prepareOperations(service, admin)
const world = await newWorld()

/** The request of the registry as the arguments of a tool. */
const argumentsOf = async (id: OperationId): Promise<Record<string, unknown>> => {
  const { params = {}, query = {}, body = {} } = await rows[id].request(world, world.owner)
  const fields = Object.entries(asObject(body))
  const clear = fields.flatMap(([name, value]) => (value === null ? [name] : []))
  return {
    ...asObject(params),
    ...asObject(query),
    ...Object.fromEntries(fields.filter(([, value]) => value !== null)),
    ...(clear.length > 0 && { clear }),
  }
}

t.test('sendMcpMessage: null is the same as no argument, in every tool', async (t) => {
  const { client, call } = await connectAssistant(t, service, world.owner.token)
  const { tools } = await client.listTools()
  for (const { id } of toolOperations) {
    const { properties = {}, required = [] } =
      tools.find(({ name }) => name === toolName(id))?.inputSchema ?? {}
    const nulls = Object.fromEntries(Object.keys(properties).map((name) => [name, null]))
    const { isError, text } = await call(toolName(id), { ...nulls, ...(await argumentsOf(id)) })
    t.equal(isError, false, `${id} ${text}`)
    // The keys of a dictionary are not known, so null is never one that is left unset.
    const known = JSON.stringify(properties, (key, value: unknown) =>
      key === 'additionalProperties' ? undefined : value,
    )
    t.notMatch(known, /"null"/, `${id}: no schema asks for null`)
    for (const name of required) {
      const without = { ...(await argumentsOf(id)), [name]: null }
      t.equal((await call(toolName(id), without)).isError, true, `${id} requires ${name}`)
    }
  }
})

t.test('sendMcpMessage: a tool sets to null only the fields that clear names', async (t) => {
  const { client, call } = await connectAssistant(t, service, world.owner.token)
  const { tools } = await client.listTools()
  const clearableOf = (name: string) => {
    const { clear } = tools.find((tool) => tool.name === name)?.inputSchema.properties ?? {}
    return clear === undefined ? [] : asArray(asObject(asObject(clear).items).enum).map(String)
  }
  const clearing = toolOperations.filter(({ id }) => clearableOf(toolName(id)).length > 0)
  t.same(clearing.map(({ id }) => id).toSorted(), ['moveTask', 'updateProject', 'updateTask'])
  for (const { id } of clearing) {
    const clear = clearableOf(toolName(id))
    const { params = {} } = await rows[id].request(world, world.owner)
    const { isError, content, text } = await call(toolName(id), { ...params, clear })
    t.equal(isError, false, text)
    for (const field of clear) t.equal(asObject(content)[field], null, `${id} ${field}`)
  }

  const project = await world.newProject()
  const { id: section_id } = (
    await service.expect('createSection', 201, {
      token: world.owner.token,
      params: { project_id: project.id },
      body: { name: 'Next' },
    })
  ).body
  const created = await call('create_task', {
    title: 'Keep all of it',
    description: null,
    start_at: null,
    start_on: '2026-11-01',
    due_at: null,
    due_on: '2026-11-02',
    assignee_id: 'me',
    project_id: project.id,
    section_id,
    parent_id: null,
    tag_ids: null,
    idempotency_key: null,
  })
  const kept = { start_on: '2026-11-01', due_on: '2026-11-02', project_id: project.id, section_id }
  t.match(created, { isError: false, content: kept }, created.text)
  const { id: task_id } = created.content as Schemas['Task']
  const unset = Object.fromEntries(clearableOf('update_task').map((name) => [name, null]))
  const updated = await call('update_task', { task_id, ...unset, clear: null, title: 'Kept', if_match: null })
  t.match(updated, {
    isError: false,
    content: { ...kept, title: 'Kept', assignee_id: world.owner.id },
  })
  t.match(await call('update_task', { task_id, due_on: null, clear: ['due_on', 'assignee_id'] }), {
    isError: false,
    content: { ...kept, due_on: null, assignee_id: null },
  })

  t.match(await call('update_task', { task_id, start_on: '2026-11-03', clear: ['start_on'] }), {
    isError: true,
    text: 'start_on: give a value or name it in clear, not both.',
  })
  t.match(await call('update_task', { task_id, clear: ['title', 'nonsense'] }), {
    isError: true,
    content: { errors: [{ pointer: '/nonsense' }, { pointer: '/title' }] },
  })
  t.match((await call('move_task', { task_id, section_id: null })).content, {
    detail: 'The body must have at least 1 field.',
  })

  const recurring = await call('update_task', {
    task_id,
    due_on: '2090-01-06',
    recurrence: { rule: 'FREQ=WEEKLY' },
  })
  t.match(recurring, { isError: false, content: { occurrence: { number: 1 } } })
  const closed = (await call('update_task', { task_id, status: 'done' })).content as Schemas['Task']
  const next = { task_id: closed.occurrence?.next_task_id }
  t.match(await call('get_task', next), { content: { due_on: '2090-01-13', occurrence: { number: 2 } } })
  t.match(await call('update_task', { ...next, clear: ['recurrence'] }), { content: { recurrence: null } })
  t.match(await call('delete_task', { task_id, clear: ['title'] }), {
    isError: true,
    content: { errors: [{ pointer: '/clear' }] },
  })
})

/** The examples of an operation in the contract: its path parameters and its bodies. */
const examplesOf = ({ path, method }: (typeof toolOperations)[number]) => {
  const item = asObject(asObject(contract.document.paths)[path])
  const { requestBody = {} } = asObject(item[method.toLowerCase()])
  const ids = asArray(item.parameters ?? []).map((parameter) => {
    const { name, example } = resolve(contract.document, parameter)
    return [String(name), example] as const
  })
  const content = asObject(asObject(requestBody).content ?? {})['application/json'] ?? {
    examples: { none: {} },
  }
  const bodies = Object.values(asObject(asObject(content).examples)).map((example) =>
    asObject(resolve(contract.document, example).value ?? {}),
  )
  return { ids: Object.fromEntries<unknown>(ids), bodies }
}

t.test('sendMcpMessage: schemas are valid, and accept the examples of the contract', async (t) => {
  const { client } = await connectAssistant(t, service, ada.token)
  const { tools } = await client.listTools()
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false })
  for (const format of ['uuid', 'date-time', 'date', 'email', 'uri-reference']) ajv.addFormat(format, true)
  for (const operation of toolOperations) {
    const tool = tools.find(({ name }) => name === toolName(operation.id))
    const accepts = ajv.compile(asObject(tool?.inputSchema))
    const { ids, bodies } = examplesOf(operation)
    for (const body of bodies) {
      // What a request sets to null, a call names in `clear`.
      const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
      const clear = Object.keys(body).filter((name) => body[name] === null)
      const args = { ...ids, ...given, ...(clear.length > 0 && { clear }) }
      t.ok(accepts(args), `${operation.id} ${JSON.stringify(args)}`, { errors: accepts.errors })
    }
    t.notOk(accepts({ ...ids, ...bodies[0], nonsense: 1 }), 'unknown fields are rejected')
    t.notMatch(JSON.stringify(tool), /\$ref|x-[a-z]+"|nullable/, operation.id)
  }
})

t.test('sendMcpMessage: a token can list and call only the tools of its scopes', async (t) => {
  const { client, call } = await connectAssistant(t, service, await tokenWith('tags:read'))
  const { tools } = await client.listTools()
  t.same(tools.map(({ name }) => name).toSorted(), ['list_tags', 'list_task_tags'])
  t.match(await call('list_tags'), { isError: false })

  const refused = await call('create_task', { title: 'Beyond the scopes' })
  t.equal(refused.isError, true)
  t.match(refused.content, {
    status: 403,
    code: 'insufficient_scope',
    detail: 'This operation requires the scope tasks:write. Use a token with this scope.',
    instance: '/tasks',
  })
  t.strictSame(JSON.parse(refused.text), refused.content)
  checkResponse('createTask', 'POST', {
    status: 403,
    headers: new Headers({
      'content-type': 'application/problem+json',
      'x-request-id': problemIn(refused.content).request_id,
      'api-version': version,
      'cache-control': 'no-store',
    }),
    body: refused.content,
  })
})

t.test('sendMcpMessage: problems of a call name the argument and what it expects', async (t) => {
  const { call } = await connectAssistant(t, service, ada.token)
  const { id: task_id } = await createTask(ada)

  const invalid = await call('create_task', { title: '', color: 'red', due_at: 'tomorrow' })
  t.equal(invalid.isError, true)
  t.match(problemIn(invalid.content).errors, [
    { pointer: '/color', detail: /^is not a known field\. Expected one of: title, / },
    { pointer: '/title', detail: 'must have at least 1 character' },
    { pointer: '/due_at', detail: /RFC 3339/ },
  ])

  for (const wrong of [
    undefined,
    '',
    '.',
    '..',
    '../tags',
    '../../tags',
    7,
    null,
    {},
    `${newId()}/tags`,
    newId().slice(1),
  ]) {
    const { isError, content } = await call('get_task', wrong === undefined ? {} : { task_id: wrong })
    t.equal(isError, true)
    t.match(content, { status: 400, errors: [{ pointer: '/task_id', detail: 'must be a UUID' }] })
  }
  t.match((await call('list_tasks', { nonsense: 1, limit: 'many' })).content, {
    errors: [
      { pointer: '/nonsense', detail: /^is not a known parameter\. Expected one of: limit, / },
      { pointer: '/limit' },
    ],
  })
  t.match((await call('update_task', { task_id, title: 'Late', if_match: '0' })).content, {
    status: 412,
    code: 'precondition_failed',
  })
  t.match((await call('update_task', { task_id, title: 'Late', expect: { due_on: '2020-01-01' } })).content, {
    status: 412,
    conflicts: [{ field: 'due_on', current: null }],
  })

  const { isError } = await call('list_tasks', { q: null, cursor: null, limit: 1 })
  t.equal(isError, false, 'null is the same as no argument')
  t.match(
    (await call('list_tasks', { sort: '-due_at,title', expand: ['owner', 'assignee'], overdue: false }))
      .content,
    {
      items: [{ owner: { id: ada.id } }],
    },
  )
})

t.test('sendMcpMessage: repeating a creation with its idempotency key creates nothing', async (t) => {
  const { call } = await connectAssistant(t, service, ada.token)
  const args = { title: 'Only once', idempotency_key: 'once' }
  const [first, second] = [await call('create_task', args), await call('create_task', args)]
  t.strictSame(second.content, first.content)
})

t.test('sendMcpMessage, 401: a missing, invalid or revoked token', async (t) => {
  for (const token of [undefined, 'twp_nonsense']) {
    const { headers } = await service.expect('sendMcpMessage', 401, { body: message('ping'), token })
    t.match(headers.get('www-authenticate'), /^Bearer realm="taskwright"/)
    await t.rejects(connectAssistant(t, service, token), { message: /401|Unauthorized/i })
  }

  const { id: token_id, token } = await createApiToken(ada)
  const { call } = await connectAssistant(t, service, token)
  t.match(await call('list_tasks'), { isError: false })
  await service.expect('revokeApiToken', 204, { token: ada.token, params: { token_id } })
  await t.rejects(call('list_tasks'), { message: /401|Unauthorized/i }, 'immediately')
})

t.test('sendMcpMessage: malformed messages, unknown tools, unsupported versions', async (t) => {
  t.match(await send('{"jsonrpc":', { headers: { 'content-type': 'application/json' } }), {
    status: 400,
    body: { code: 'invalid_request' },
  })
  t.match(await send([message('ping'), message('ping')]), {
    status: 400,
    body: { detail: 'The body must be a JSON object.' },
  })
  t.match(await send({ id: 1, method: 'ping' }), {
    status: 400,
    body: { errors: [{ pointer: '/jsonrpc' }] },
  })
  t.match(await send({ jsonrpc: '2.0', id: {}, method: 'ping' }), {
    status: 400,
    body: { error: { code: -32600 } },
  })
  t.match(await send(message('tools/call', { name: 'drop_tables' })), {
    status: 200,
    body: { error: { code: -32602, message: 'There is no tool drop_tables' } },
  })
  t.match(await send(message('tools/call', { name: 'list_tasks', arguments: 'all' })), {
    status: 200,
    body: { error: { code: -32602 } },
  })
  t.match(await send(message('resources/list')), { status: 200, body: { error: { code: -32601 } } })
  t.match(await send({ jsonrpc: '2.0', method: 'notifications/initialized' }), { status: 202, body: null })

  for (const version of ['2024-01-01', '1.0']) {
    const headers = { 'mcp-protocol-version': version }
    t.match(await send(message('ping'), { headers }), {
      status: 400,
      body: { error: { message: /version/i } },
    })
  }
  const envelope = {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'a test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  }
  const latest = (method: string) => ({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method })
  t.match(await send(message('ping/pong', envelope), { headers: latest('ping/pong') }), {
    status: 404,
    body: { error: { code: -32601 } },
  })
  const subscription = message('subscriptions/listen', { ...envelope, notifications: {} })
  t.match(await send(subscription, { headers: latest('subscriptions/listen') }), {
    status: 200,
    body: { error: { message: 'Subscription limit reached' } },
  })
})

t.test('sendMcpMessage: initialize negotiates the version, and needs its parameters', async (t) => {
  const params = { capabilities: {}, clientInfo: { name: 'a test', version: '1' } }
  for (const [asked, answered] of [
    ['2024-11-05', '2024-11-05'],
    ['2025-03-26', '2025-03-26'],
    ['2025-06-18', '2025-06-18'],
    ['2025-11-25', '2025-11-25'],
    ['1.0', '2025-11-25'],
    ['2099-01-01', '2025-11-25'],
  ] as const) {
    const { body } = await send(message('initialize', { ...params, protocolVersion: asked }))
    t.match(body, { result: { protocolVersion: answered, serverInfo: { name: 'taskwright' } } }, asked)
    const headers = { 'mcp-protocol-version': answered }
    t.match(await send(message('tools/list'), { headers }), { status: 200, body: { result: { tools: [] } } })
  }
  for (const invalid of [
    undefined,
    {},
    params,
    { ...params, protocolVersion: null },
    { ...params, protocolVersion: 7 },
    { protocolVersion: '2025-11-25' },
  ])
    t.match(
      await send(message('initialize', invalid)),
      { status: 200, body: { id: 1, error: { code: -32602, message: /^Invalid params\. params/ } } },
      JSON.stringify(invalid),
    )
})

t.test('sendMcpMessage: the list of tools has no other page', async (t) => {
  const latest = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'a test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  for (const cursor of [null, '', 'abc', 7, {}]) {
    const refused = { status: 200, body: { error: { code: -32602 } } }
    t.match(await send(message('tools/list', { cursor })), refused, JSON.stringify(cursor))
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }
    t.match(await send(message('tools/list', { cursor, _meta: latest }), { headers }), refused)
  }
  const { body } = await send(message('tools/list', {}))
  t.equal(asObject(asObject(body).result).nextCursor, undefined)
})

t.test('sendMcpMessage, 405, 413, 415: other methods, a body that is too large or not JSON', async (t) => {
  const tooLarge = message('tools/call', { name: 'create_task', arguments: { title: 'x'.repeat(1_200_000) } })
  t.match(await send(tooLarge), { status: 413 })
  t.match(await send('{}', { headers: { 'content-type': 'text/plain' } }), { status: 415 })
  for (const method of ['GET', 'DELETE']) {
    const response = await fetch(`${service.url}/mcp`, {
      method,
      headers: { authorization: `Bearer ${ada.token}` },
    })
    t.equal(response.status, 405, method)
    t.equal(response.headers.get('allow'), 'POST')
  }
})

t.test('sendMcpMessage, 403: an origin that is not allowed', async (t) => {
  const { port } = new URL(service.url)
  const allowed = 'https://app.example.com'
  const open = await startService(t, {
    db,
    config: { corsOrigins: [allowed], publicUrl: 'https://tasks.example.com/api' },
  })
  const statusFrom = async (origin: string, { call }: Pick<Service, 'call'>) => {
    const request = { token: ada.token, headers: { origin }, body: message('ping') }
    const { status, body } = await call('sendMcpMessage', request)
    if (status !== 200) t.match(body, { code: 'origin_not_allowed' })
    return status
  }
  t.equal(await statusFrom(`http://127.0.0.1:${port}`, service), 200, 'the origin of the service')
  for (const origin of [
    'https://evil.example',
    'null',
    `http://127.0.0.1:${Number(port) + 1}`,
    allowed,
    'https://tasks.example.com',
  ])
    t.equal(await statusFrom(origin, service), 403, origin)
  t.equal(await statusFrom(allowed, open), 200)
  t.equal(await statusFrom('https://tasks.example.com', open), 200)
  t.equal(await statusFrom('https://tasks.example.com.evil.example', open), 403)
})

t.test('sendMcpMessage, 404: MCP is disabled', async (t) => {
  const off = await startService(t, { db, config: { mcp: 'off' } })
  const { body } = await off.expect('sendMcpMessage', 404, { token: ada.token, body: message('ping') })
  t.match(body, { code: 'not_found' })
})

t.test('sendMcpMessage: tools work if PUBLIC_URL has a path', async (t) => {
  const below = await startService(t, { db, config: { publicUrl: 'https://example.com/tasks' } })
  const { call } = await connectAssistant(t, below, ada.token)
  t.match(await call('get_current_user'), { isError: false, content: { id: ada.id } })
  t.match(await call('list_tasks', { limit: 1 }), { isError: false })
})

t.test('sendMcpMessage, 429: a call counts once towards rate and concurrency limits', async (t) => {
  const limit = 20
  const limited = await startService(t, {
    db,
    config: { rateLimit: 'on', rateLimitApi: limit },
    // A tool call that occupied a second slot would be rejected.
    requestLimit: 1,
  })
  const { id, token } = await service.register('counted')
  const call = () =>
    limited.call('sendMcpMessage', { token, body: message('tools/call', { name: 'get_current_user' }) })
  for (let left = limit - 1; left >= 0; left -= 1) {
    const { status, headers, body } = await call()
    t.equal(status, 200)
    t.match(headers.get('ratelimit'), `"api";r=${left};`)
    t.match(body, { result: { structuredContent: { id } } })
  }
  const refused = await call()
  t.match(refused, { status: 429, body: { code: 'too_many_requests' } })
  t.ok(Number(refused.headers.get('retry-after')) > 0)
})

t.test('sendMcpMessage: the message and its operation are logged with a line each', async (t) => {
  const lines: Json[] = []
  const logged = await startService(t, {
    db,
    config: { logLevel: 'info', trustProxy: ['127.0.0.1'] },
    logStream: { write: (line) => void lines.push(asObject(JSON.parse(line))) },
  })
  const { id: task_id } = await createTask(ada)
  await logged.expect('sendMcpMessage', 200, {
    token: ada.token,
    headers: {
      'x-request-id': 'of-an-assistant',
      'x-forwarded-for': '192.0.2.7',
      'user-agent': 'An assistant',
    },
    body: message('tools/call', { name: 'get_task', arguments: { task_id } }),
  })
  const requests = () =>
    lines.filter((line) => line.request_id === 'of-an-assistant' && line.msg === 'request')
  await eventually('both lines are logged', async () => requests().length === 2)
  const common = { status: 200, remote_address: '192.0.2.7', principal_id: ada.id }
  t.match(requests(), [
    { ...common, operation_id: 'getTask', route: '/tasks/{task_id}', method: 'GET' },
    { ...common, operation_id: 'sendMcpMessage', route: '/mcp', method: 'POST' },
  ])
})

/** A service on which statements that match `pattern` wait until `release`. */
const startHeld = async (t: Test, pattern: RegExp, overrides: Parameters<typeof startService>[1] = {}) => {
  const reached = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const service = await startService(t, {
    db: {
      ...db,
      async run(...parameters) {
        if (pattern.test(parameters[0])) {
          reached.resolve()
          await held.promise
        }
        return db.run(...parameters)
      },
    },
    backgroundDb: db,
    ...overrides,
  })
  return { service, reached: reached.promise, release: () => held.resolve() }
}

t.test('sendMcpMessage: a write that times out results in outcome_unknown', async (t) => {
  const slow = await startService(t, {
    db: {
      ...db,
      transaction() {
        currentWork().sent.push('commit')
        return new Promise(() => {})
      },
    },
    backgroundDb: db,
    timeLimits: { ...timeLimits, answer: 200 },
  })
  const { call } = await connectAssistant(t, slow, ada.token)
  t.match(await call('create_task', { title: 'Slow' }), {
    isError: true,
    content: { status: 504, code: 'outcome_unknown' },
  })
})

t.test('sendMcpMessage: a call in progress finishes before the service stops', async (t) => {
  const { token } = await createApiToken(ada, { scopes: ['tasks:write'] })
  const { service: stopping, reached, release } = await startHeld(t, /api_tokens/)
  const answer = stopping.expect('sendMcpMessage', 200, {
    token,
    body: message('tools/call', { name: 'create_task', arguments: { title: 'At the last moment' } }),
  })
  await reached
  const closed = stopping.app.close()
  await eventually('new requests are refused', async () => {
    try {
      return (await fetch(`${stopping.url}/tasks`)).status === 503
    } catch {
      return true
    }
  })
  release()
  t.match((await answer).body, { result: { structuredContent: { title: 'At the last moment' } } })
  await closed
})

t.test('sendMcpMessage: a read is aborted when the client disconnects', async (t) => {
  const lines: Json[] = []
  const {
    service: watched,
    reached,
    release,
  } = await startHeld(t, /tasks\.select/, {
    config: { logLevel: 'info' },
    logStream: { write: (line) => void lines.push(asObject(JSON.parse(line))) },
  })
  const { id: task_id } = await createTask(ada)
  const aborting = new AbortController()
  const lost = fetch(`${watched.url}/mcp`, {
    method: 'POST',
    signal: aborting.signal,
    headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(message('tools/call', { name: 'get_task', arguments: { task_id } })),
  })
  await reached
  aborting.abort()
  await t.rejects(lost)
  const countConnections = promisify(watched.app.server.getConnections.bind(watched.app.server))
  await eventually('the service sees the disconnection', async () => (await countConnections()) === 0)
  release()
  const outcome = () => lines.find((line) => line.operation_id === 'getTask')
  await eventually('the operation ends', async () => outcome() !== undefined)
  t.match(outcome(), { status: 503 }, 'the statement is not sent')
})
