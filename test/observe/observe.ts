import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import manifest from '../../package.json' with { type: 'json' }
import t from 'tap'
import { environmentFor } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { metricsUrl, readMetrics, startCollector } from '../fixture/observe.ts'
import { startProcess } from '../fixture/process.ts'
import { createClient, fileForm } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'

/** The log, the metrics and the traces of a service. */

const collector = await startCollector(t)
const token = 'the-token-of-the-scraper'
const environment = await environmentFor(t)
const service = await startProcess(t, {
  ...environment,
  LOG_LEVEL: 'info',
  METRICS_PORT: '0',
  METRICS_HOST: '127.0.0.1',
  METRICS_TOKEN: token,
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
})
const { call, expect, register } = createClient(service.url)
const ada = await register('ada')

interface Line {
  readonly msg: string
  readonly request_id?: string
}

const linesOf = (requestId: string): Line[] =>
  service
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line): Line => JSON.parse(line) as Line)
    .filter((line) => line.request_id === requestId)

const lineOf = async (requestId: string): Promise<Line> => {
  while (linesOf(requestId).length === 0) await pause(5)
  return linesOf(requestId)[0] ?? { msg: '' }
}

t.test('a request is one log line with principal, operation and status', async (t) => {
  const headers = { 'x-request-id': 'client-4711' }
  const { headers: received } = await expect('listTasks', 200, {
    token: ada.token,
    query: { limit: 7 },
    headers,
  })
  t.equal(received.get('x-request-id'), 'client-4711')
  t.match(await lineOf('client-4711'), {
    level: 30,
    msg: 'request',
    method: 'GET',
    path: '/tasks',
    route: '/tasks',
    operation_id: 'listTasks',
    status: 200,
    duration_ms: Number,
    principal_id: ada.id,
    credential: 'session',
  })
  t.equal(linesOf('client-4711').length, 1)
  t.notMatch(JSON.stringify(linesOf('client-4711')), 'limit', 'the query is not logged')
})

t.test('a problem has the request id of its log line', async (t) => {
  const { body, headers } = await call('getTask', { token: ada.token, params: { task_id: ada.id } })
  t.match(body, { request_id: headers.get('x-request-id') })
  t.match(await lineOf(headers.get('x-request-id') ?? ''), {
    status: 404,
    problem: 'not_found',
    route: '/tasks/{task_id}',
  })
})

t.test('an invalid X-Request-Id is replaced', async (t) => {
  for (const id of ['with space', 'x'.repeat(65), '{"a":1}']) {
    const { headers } = await expect('getLiveness', 200, { headers: { 'x-request-id': id } })
    t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/)
  }
})

t.test('401 for metrics without the token', async (t) => {
  for (const authorization of ['', 'Bearer wrong', `Basic ${token}`]) {
    const response = await fetch(metricsUrl(service), { headers: { authorization } })
    t.equal(response.status, 401)
    t.match(response.headers.get('www-authenticate'), /^Bearer/)
    t.equal(await response.text(), '')
  }
  t.equal((await fetch(metricsUrl(service).replace(/metrics$/, 'tasks'))).status, 404)
  t.equal((await fetch(metricsUrl(service), { method: 'POST' })).status, 405)
})

t.test('metrics cover requests by route, problems, storage, database and process', async (t) => {
  const { body: task } = await expect('createTask', 201, { token: ada.token, body: { title: 'Measured' } })
  await expect('addTaskAttachment', 201, {
    token: ada.token,
    params: { task_id: task.id },
    body: fileForm('measured'),
  })
  await expect('login', 401, { body: { email: ada.email, password: 'wrong' } })
  const text = await readMetrics(service, token)
  t.match(
    text,
    /^taskwright_http_request_duration_seconds_count\{method="GET",route="\/tasks\/\{task_id\}",status="404"\} 1$/m,
  )
  t.match(text, /^taskwright_problems_total\{code="invalid_credentials",route="\/auth\/login"\} 1$/m)
  t.match(text, /^taskwright_storage_operation_duration_seconds_count\{operation="put",outcome="done"\} 1$/m)
  t.match(text, /^taskwright_database_statement_duration_seconds_count\{outcome="done"\} [1-9]/m)
  t.match(text, /^taskwright_database_statements_pending \d+$/m)
  t.match(text, /^taskwright_password_hashes_pending 0$/m)
  t.match(text, /^nodejs_eventloop_lag_seconds /m)
  const info = `taskwright_info{version="${manifest.version}",node="${process.versions.node}"} 1`
  t.ok(text.split('\n').includes(info), info)
  t.notMatch(text, task.id, 'no ids of resources')
})

t.test('an upload whose client disconnects is not counted as a storage failure', async (t) => {
  const { body: task } = await expect('createTask', 201, { token: ada.token, body: { title: 'Cut short' } })
  const sending = request(`${service.url}/tasks/${task.id}/attachments`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ada.token}`,
      'content-type': 'multipart/form-data; boundary=x',
      'content-length': 1_000,
      expect: '100-continue',
    },
  })
  sending.flushHeaders()
  await once(sending, 'continue')
  sending.on('error', () => undefined)
  sending.write('--x\r\nContent-Disposition: form-data; name="file"; filename="lost"\r\n\r\nThe beginning')
  const incoming = () => filesBelow(join(environment.DATA_DIR, 'attachments', 'incoming'))
  await eventually('the file is being written', async () => (await incoming()).length > 0)
  sending.destroy()
  const counted =
    /^taskwright_storage_operation_duration_seconds_count\{operation="put",outcome="refused"\} 1$/m
  await eventually('the refused operation is counted', async () =>
    counted.test(await readMetrics(service, token)),
  )
  t.notMatch(await readMetrics(service, token), /operation="put",outcome="failed"/)
})

t.test('traces of clients are continued, with spans for statements and files', async (t) => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
  const parent = '00f067aa0ba902b7'
  const { body: task } = await expect('createTask', 201, {
    token: ada.token,
    body: { title: 'A title that is nobody’s business' },
    headers: { traceparent: `00-${trace}-${parent}-01` },
  })
  const upload = '5bf92f3577b34da6a3ce929d0e0e4736'
  await expect('addTaskAttachment', 201, {
    token: ada.token,
    params: { task_id: task.id },
    body: fileForm('traced'),
    headers: { traceparent: `00-${upload}-${parent}-01` },
  })
  const message = '6bf92f3577b34da6a3ce929d0e0e4736'
  const params = { name: 'get_task', arguments: { task_id: task.id } }
  await expect('sendMcpMessage', 200, {
    token: ada.token,
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    headers: { traceparent: `00-${message}-${parent}-01` },
  })
  t.equal(await service.end('SIGTERM'), 0, 'remaining spans are sent at the stop')
  const received = collector.received()
  const spansOf = (id: string): number =>
    received.toString('latin1').split(Buffer.from(id, 'hex').toString('latin1')).length - 1
  t.ok(spansOf(trace) >= 2, 'the request and its statements')
  t.ok(spansOf(upload) >= 3, 'the request, its statements and the file')
  t.ok(spansOf(message) >= 3, 'the message, its operation and its statement')
  t.ok(received.includes(Buffer.from(parent, 'hex')))
  for (const text of [
    'POST /tasks',
    '/tasks/{task_id}/attachments',
    'insert into tasks',
    'storage put',
    'taskwright',
  ])
    t.ok(received.includes(text), text)
  // Protocol Buffers: the field 5 of a span, its length, and its name.
  for (const name of ['tasks.insert', 'tasks.select'])
    t.ok(received.includes(Buffer.from(`\x2a${String.fromCodePoint(name.length)}${name}`)), name)
  t.notOk(received.includes('nobody’s business'), 'values are not traced')
})
