import { createHash } from 'node:crypto'
import { URI } from 'otpauth'
import t from 'tap'
import { createClient as createSqlClient } from '../src/db/engine/connection.ts'
import { environmentFor, openDatabaseOf } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { readMetrics, startCollector } from './fixture/observe.ts'
import { startProcess } from './fixture/process.ts'
import { authenticator } from './fixture/second-factor.ts'
import { createClient } from './fixture/service.ts'
import { startMailServer } from './fixture/smtp.ts'

/** Plants secrets wherever the service accepts one. Log, metrics, traces and database must not contain any of them. */

const environment = await environmentFor(t)
const mail = await startMailServer(t)
const collector = await startCollector(t)
const METRICS_TOKEN = 'planted-metrics-token-4711'
const service = await startProcess(t, {
  ...environment,
  METRICS_PORT: '0',
  METRICS_TOKEN,
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  LOG_LEVEL: 'trace',
  SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
  PUBLIC_URL: 'https://tasks.example.com',
})
const { expect, call, register } = createClient(service.url)

const secrets = new Map<string, string>()

/** Records a secret under its kind, and returns it. */
const plant = (kind: string, secret: string): string => {
  secrets.set(kind, secret)
  return secret
}

/** Secrets in headers that any request can have. */
const headers = {
  cookie: `session=${plant('a cookie', 'planted-cookie-4711')}`,
  'proxy-authorization': `Basic ${plant('a proxy password', 'planted-proxy-4711')}`,
}

const run = async () => {
  const admin = await register('admin')
  const ada = await register('ada')
  plant('the first password', ada.password)
  plant('an access token', ada.token)
  plant('a refresh token', ada.refreshToken)
  const { token, email, id: user_id } = ada
  const typed = plant('a password typed into the email field', 'planted-typed@example.com')
  await expect('login', 401, { body: { email: typed, password: 'x' }, headers })
  await expect('forgotPassword', 202, { body: { email: typed }, headers })
  const password = plant('a wrong password', 'planted-wrong-password')
  await expect('login', 401, { body: { email, password }, headers })
  await expect('getCurrentUser', 401, { token: plant('a wrong token', 'planted.wrong.token'), headers })
  const new_password = plant('a changed password', 'planted-changed-password')
  const current_password = ada.password
  await expect('changePassword', 422, { token, body: { current_password: password, new_password }, headers })
  await expect('changePassword', 204, { token, body: { current_password, new_password }, headers })

  const scopes = ['tasks:read']
  const program = await expect('createApiToken', 201, { token, body: { name: 'program', scopes }, headers })
  await expect('listTasks', 200, { token: plant('an API token', program.body.token), headers })

  const { body: enrolled } = await expect('enrollSecondFactor', 201, {
    token,
    body: { password: new_password },
  })
  plant('a TOTP secret', enrolled.secret)
  plant(
    'the bytes of a TOTP secret',
    Buffer.from(URI.parse(enrolled.otpauth_uri).secret.bytes).toString('latin1'),
  )
  const codeAt = authenticator(enrolled.secret)
  const code = plant('a confirming code', codeAt())
  const confirmed = await expect('confirmSecondFactor', 200, { token, body: { code }, headers })
  for (const [index, one] of confirmed.body.recovery_codes.entries()) {
    plant(`recovery code ${index}`, one)
    plant(`recovery code ${index} without hyphens`, one.replaceAll('-', ''))
  }
  const { body: problem } = await expect('login', 401, { body: { email, password: new_password }, headers })
  const challenge = plant('a challenge', problem.challenge ?? '')
  await expect('completeLogin', 401, { body: { challenge, code }, headers })
  const answer = { challenge, code: plant('a sign-in code', codeAt(1)) }
  const { body: signedIn } = await expect('completeLogin', 200, { body: answer, headers })
  const rotated = await expect('refreshToken', 200, {
    body: { refresh_token: signedIn.refresh_token },
    headers,
  })
  plant('a spent refresh token', signedIn.refresh_token)
  plant('a new refresh token', rotated.body.refresh_token)
  plant('a new access token', rotated.body.access_token)
  const unspent = await expect('login', 401, { body: { email, password: new_password }, headers })
  plant('an open challenge', unspent.body.challenge ?? '')

  const body = { password: plant('a password set by an administrator', 'planted-set-password') }
  await expect('setUserPassword', 204, { token: admin.token, params: { user_id }, body, headers })
  await expect('forgotPassword', 202, { body: { email }, headers })
  await eventually('the reset mail has arrived', async () => mail.received.length === 1)
  const [resetToken = ''] = /twx_[\w-]{43}/.exec(mail.received[0]?.text ?? '') ?? []
  plant('the reset token of a mail', resetToken)
  const reset = { token: resetToken, new_password: plant('a reset password', 'planted-reset-password') }
  await expect('resetPassword', 204, { body: reset, headers })
  await expect('resetPassword', 401, { body: reset, headers })
  await expect('forgotPassword', 202, { body: { email }, headers })
  await eventually('the second reset mail has arrived', async () => mail.received.length === 2)
  plant('an unused reset token of a mail', /twx_[\w-]{43}/.exec(mail.received[1]?.text ?? '')?.[0] ?? '')

  const grace = await register('grace')
  const graceRequest = { token: grace.token, headers }
  const proof = plant('a password for reauthentication', grace.password)
  await expect('reauthenticate', 204, { ...graceRequest, body: { password: proof } })
  const change = { email: 'grace.hopper@example.com', current_password: proof }
  await expect('updateUser', 200, { ...graceRequest, params: { user_id: grace.id }, body: change })
  await eventually('the mail about the changed address has arrived', async () => mail.received.length === 3)
  const undo = plant('the token of an undo', /twu_[\w-]{43}/.exec(mail.received[2]?.text ?? '')?.[0] ?? '')
  const created = { body: { name: 'once', scopes }, headers: { ...headers, 'idempotency-key': 'once' } }
  const { body: sealed } = await expect('createApiToken', 201, { token: grace.token, ...created })
  plant('an API token stored for replays', sealed.token)
  const { body: undone } = await expect('undoEmailChange', 200, { body: { token: undo }, headers })
  plant('the reset token of an undo', undone.reset_token)

  await call('login', {
    body: '{"password":"planted-broken-body',
    headers: { 'content-type': 'application/json' },
  })
  plant('a body that is not JSON', 'planted-broken-body')
  const { body: trail } = await expect('listAuditEvents', 200, { token: admin.token, query: { limit: 200 } })
  return { trail: trail.items, hashed: [admin.refreshToken, program.body.token] }
}

const { trail, hashed } = await run()
plant('the metrics token', METRICS_TOKEN)
const metrics = await readMetrics(service, METRICS_TOKEN)
await service.end('SIGTERM')
const log = service.output()
const traces = collector.received().toString('latin1')

/** Every row of every table, as text. */
const dump = async (): Promise<string> => {
  const database = await openDatabaseOf(environment)
  const sql = createSqlClient(database.options)
  const tables = await sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public'`
  const rows: string[] = []
  for (const { name } of tables) {
    const found = await sql.unsafe<{ text: string }[]>(`select item::text as text from "${name}" item`)
    rows.push(...found.map(({ text }) => `${name} ${text}`))
  }
  await sql.end()
  await database.close()
  return rows.join('\n')
}

const database = await dump()

/** Finds a secret in a text. A code of six digits must not be part of a longer number, such as a time. */
const isIn = (text: string, secret: string): boolean =>
  /^\d{6}$/.test(secret) ? new RegExp(`(?<![\\d.])${secret}(?!\\d)`).test(text) : text.includes(secret)

t.test('secrets are not in the log, the metrics, the traces or the database', async (t) => {
  t.ok(log.split('\n').length > 30, 'there is a log')
  t.match(metrics, 'taskwright_http_request_duration_seconds')
  t.match(traces, 'POST /auth/login', 'there are traces')
  t.ok(secrets.size > 40)
  for (const [kind, secret] of secrets) {
    t.not(secret, '', kind)
    t.notOk(isIn(log, secret), `${kind} in the log`)
    t.notOk(isIn(metrics, secret), `${kind} in the metrics`)
    t.notOk(isIn(traces, secret), `${kind} in the traces`)
    t.notOk(isIn(database, secret), `${kind} in the database`)
    t.notOk(database.includes(Buffer.from(secret, 'latin1').toString('hex')), `the bytes of ${kind}`)
    t.notOk(log.includes(Buffer.from(secret, 'latin1').toString('base64')), `${kind} in Base64`)
  }
})

t.test('the database has the SHA-256 digests of tokens', async (t) => {
  for (const token of hashed) {
    const digest = createHash('sha256').update(token).digest('hex')
    t.ok(database.includes(digest), token.slice(0, 4))
  }
})

t.test('each audit event is logged', async (t) => {
  const lines = log
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line): { audit?: { id: string } } => JSON.parse(line) as object)
    .flatMap(({ audit }) => audit ?? [])
  const inOrder = <E extends { id: string }>(events: readonly E[]): E[] =>
    events.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  t.ok(lines.length > 15)
  t.strictSame(inOrder(lines), inOrder(trail))
})
