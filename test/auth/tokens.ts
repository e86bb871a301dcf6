import { createHmac, createSign, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import t, { type Test } from 'tap'
import { cacheCredentials } from '../../src/auth/credentials.ts'
import type { Database } from '../../src/db/engine/client.ts'
import { untilRefused } from '../fixture/eventually.ts'
import { listen } from '../fixture/ports.ts'
import { type Account, startService } from '../fixture/service.ts'

/** Attacks on sessions: forged and malformed access tokens, malformed headers, stolen refresh tokens, revocation. */

const secrets = { active: Buffer.alloc(32, 'n'), earlier: Buffer.alloc(32, 'e') }
const service = await startService(t, { secrets: [secrets.active, secrets.earlier] })
const admin = await service.register('admin')
const ada = await service.register('ada')

type Fields = Readonly<Record<string, unknown>>

const encode = (part: Fields): string => Buffer.from(JSON.stringify(part)).toString('base64url')

const decode = (token: string, part: 0 | 1): Fields => {
  const fields: unknown = JSON.parse(Buffer.from(token.split('.')[part] ?? '', 'base64url').toString())
  return { ...(typeof fields === 'object' ? fields : null) }
}

const now = (): number => Math.floor(Date.now() / 1000)

/** The claims of a token of the service, some replaced; undefined removes a claim. */
const claims = (replaced: Fields = {}): Fields => ({
  ...decode(ada.token, 1),
  jti: randomUUID(),
  ...replaced,
})

const hmacs: Readonly<Record<string, string>> = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' }

const hmacToken = (header: Fields, payload: Fields, key: Buffer | string, algorithm = 'HS256'): string => {
  const input = `${encode({ alg: algorithm, typ: 'JWT', ...header })}.${encode(payload)}`
  return `${input}.${createHmac(hmacs[algorithm] ?? '', key)
    .update(input)
    .digest('base64url')}`
}

/** A token like those of the service, signed with one of its secrets. */
const sign = (payload: Fields, header: Fields = {}, secret: Buffer = secrets.active): string =>
  hmacToken(header, payload, secret)

/** Runs a test for each secret of the service, because each has its own verifier. */
const testEachSecret = (name: string, test: (t: Test, secret: Buffer) => Promise<void>): void => {
  for (const [age, secret] of Object.entries(secrets)) {
    t.test(`${name} (${age} secret)`, (t) => test(t, secret))
  }
}

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })

const rsaToken = (header: Fields, key: KeyObject): string => {
  const input = `${encode({ alg: 'RS256', typ: 'JWT', ...header })}.${encode(claims())}`
  return `${input}.${createSign('sha256').update(input).sign(key, 'base64url')}`
}

const unsigned = (alg: string): string => `${encode({ alg, typ: 'JWT' })}.${encode(claims())}.`

const statusOf = async (token: string): Promise<number> =>
  (await service.call('getCurrentUser', { token })).status

const statusFor = async (authorization: string): Promise<number> =>
  (await service.call('getCurrentUser', { headers: { authorization } })).status

const refused = { status: 401, body: { code: 'unauthorized' } }

testEachSecret('a handmade token with the claims of the service is accepted', async (t, secret) => {
  t.strictSame(decode(ada.token, 0), { alg: 'HS256', typ: 'JWT' })
  t.strictSame(Object.keys(decode(ada.token, 1)).toSorted(), [
    'aud',
    'exp',
    'iat',
    'iss',
    'jti',
    'sid',
    'sub',
  ])
  t.equal(
    await statusOf(sign(claims(), {}, secret)),
    200,
    'the tokens below are refused only for their one fault',
  )
})

testEachSecret('401 for any algorithm or key but HS256 with the secret', async (t, secret) => {
  const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' })
  const [head = '', payload = '', signature = ''] = ada.token.split('.')
  const signed = sign(claims(), {}, secret).split('.')
  const tokens: Readonly<Record<string, string>> = {
    none: unsigned('none'),
    None: unsigned('None'),
    NONE: unsigned('NONE'),
    'none with a signature': `${unsigned('none')}${signature}`,
    'HS256 without a signature': `${head}.${payload}.`,
    'HS256 without its third part': `${head}.${payload}`,
    HS384: hmacToken({}, claims(), secret, 'HS384'),
    HS512: hmacToken({}, claims(), secret, 'HS512'),
    'HS512 labelled HS256': hmacToken({ alg: 'HS256' }, claims(), secret, 'HS512'),
    'HS256 labelled HS512': hmacToken({ alg: 'HS512' }, claims(), secret),
    'HS256 in lower case': hmacToken({ alg: 'hs256' }, claims(), secret),
    'a list of algorithms': hmacToken({ alg: ['HS256'] }, claims(), secret),
    'no algorithm': hmacToken({ alg: undefined }, claims(), secret),
    RS256: rsaToken({}, rsa.privateKey),
    'HS256 with a public key': hmacToken({}, claims(), publicPem),
    'an empty key': hmacToken({}, claims(), ''),
    'a key of zeros': hmacToken({}, claims(), Buffer.alloc(32)),
    'another key': hmacToken({}, claims(), Buffer.concat([secret, Buffer.from('x')])),
    'the key in base64': hmacToken({}, claims(), secret.toString('base64')),
    "another token's signature": [signed[0], payload, signed[2]].join('.'),
    'a payload with one more character': `${head}.${payload}A.${signature}`,
  }
  for (const [fault, token] of Object.entries(tokens)) t.equal(await statusOf(token), 401, fault)
})

t.test('401 for a token with a key or a key URL in its header, which is not fetched', async (t) => {
  let fetches = 0
  const listener = createServer((_request, response) => {
    fetches += 1
    response.end('{"keys":[]}')
  })
  const port = await listen(listener)
  t.teardown(() => new Promise<unknown>((resolve) => listener.close(resolve)))
  const url = `http://127.0.0.1:${port}/keys.json`

  const ownSecret = Buffer.alloc(32, 'k')
  const symmetric = { kty: 'oct', k: ownSecret.toString('base64url') }
  const headers: readonly Fields[] = [
    { kid: 'unknown' },
    { kid: '../../../../dev/null' },
    { kid: "' union select 'k" },
    { jku: url },
    { x5u: url },
    { jwk: symmetric },
    { jku: url, kid: 'k', jwk: symmetric },
  ]
  for (const header of headers) {
    const name = Object.keys(header).join(' ')
    t.equal(await statusOf(hmacToken(header, claims(), ownSecret)), 401, name)
    t.equal(await statusOf(hmacToken(header, claims(), '')), 401, `${name}, with an empty key`)
  }
  const jwk = rsa.publicKey.export({ format: 'jwk' })
  t.equal(await statusOf(rsaToken({ jwk, jku: url }, rsa.privateKey)), 401, 'an RSA key in the header')
  t.equal(fetches, 0)
})

testEachSecret('401 for any critical extension', async (t, secret) => {
  for (const header of [
    { crit: ['exp'] },
    { crit: ['b64'], b64: false },
    { crit: ['urn:example:x'], 'urn:example:x': true },
    { crit: [] },
    { crit: 'exp' },
    { crit: ['alg'] },
  ]) {
    t.equal(await statusOf(sign(claims(), header, secret)), 401, JSON.stringify(header))
  }
})

testEachSecret('exp and nbf are checked, with 30 seconds of clock skew', async (t, secret) => {
  const statusWith = (replaced: Fields) => statusOf(sign(claims(replaced), {}, secret))
  t.equal(await statusWith({ exp: now() - 20 }), 200, 'expired, within the skew')
  t.equal(await statusWith({ exp: now() - 35 }), 401, 'expired, beyond the skew')
  t.equal(await statusWith({ exp: 0 }), 401, 'expired long ago')
  t.equal(await statusWith({ exp: now() + 3_600 }), 401, 'issued long before the clock was set back')
  t.equal(await statusWith({ nbf: now() + 20 }), 200, 'not yet valid, within the skew')
  t.equal(await statusWith({ nbf: now() + 60 }), 401, 'not yet valid, beyond the skew')
  for (const exp of [String(now() + 900), null, [now() + 900], true]) {
    t.equal(await statusWith({ exp }), 401, `an expiry of ${JSON.stringify(exp)}`)
  }
})

t.test('a cached token expires in time', async (t) => {
  const exp = now() - 26
  const token = sign(claims({ exp }))
  t.equal(await statusOf(token), 200)
  const { accepted } = await untilRefused(() => statusOf(token))
  t.ok(now() >= exp + 30, 'not before its expiry')
  t.ok(accepted / 1_000 < exp + 32, 'within two seconds of its expiry')
  t.equal(await statusOf(token), 401)
})

testEachSecret('401 if any claim is missing or wrong', async (t, secret) => {
  const statusWith = (replaced: Fields) => statusOf(sign(claims(replaced), {}, secret))
  for (const name of ['sub', 'sid', 'iss', 'aud', 'exp', 'iat', 'jti']) {
    t.equal(await statusWith({ [name]: undefined }), 401, `no ${name}`)
  }
  const { sub, sid } = decode(ada.token, 1)
  const wrong: readonly Fields[] = [
    { iss: 'another' },
    { iss: 'Taskwright' },
    { iss: '' },
    { iss: ['taskwright'] },
    { aud: 'another' },
    { aud: 'taskwright-api2' },
    { aud: ['taskwright-api'] },
    { aud: ['another', 'taskwright-api'] },
    { sub: [sub] },
    { sub: null },
    { sub: '' },
    { sub: "' or true --" },
    { sub: String(sub).toUpperCase() },
    { sub: randomUUID() },
    { sub: admin.id },
    { sid: [sid] },
    { sid: null },
    { sid: randomUUID() },
    { sid: decode(admin.token, 1).sid },
  ]
  t.equal(await statusOf(admin.token), 200, 'the other session is valid')
  for (const replaced of wrong) t.equal(await statusWith(replaced), 401, JSON.stringify(replaced))
})

t.test('403: claims of a role are ignored', async (t) => {
  const token = sign(claims({ role: 'admin', admin: true, scope: '*' }))
  t.match(await service.call('createUser', { token, body: someone('forged') }), { status: 403 })
})

t.test('401 for a refresh token as an access token, and vice versa', async (t) => {
  t.match(await service.call('getCurrentUser', { token: ada.refreshToken }), refused)
  t.match(await service.call('refreshToken', { body: { refresh_token: ada.token } }), {
    status: 401,
    body: { code: 'invalid_credentials' },
  })
  const disguised = sign({ ...claims(), refresh_token: ada.refreshToken })
  t.match(await service.call('refreshToken', { body: { refresh_token: disguised } }), { status: 401 })
})

t.test('401 for a header that is not exactly one bearer token', async (t) => {
  const { token } = ada
  const credentials = Buffer.from(`${ada.email}:${ada.password}`).toString('base64')
  const [head = '', payload = '', signature = ''] = token.split('.')
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    token,
    `Bearer${token}`,
    `Bearer ${token} x`,
    `Bearer ${token} ${token}`,
    `Bearer ${token},${token}`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer Bearer ${token}`,
    `Bearer\t${token}`,
    `Bearer \t${token}`,
    `Bearer ${token}\tx`,
    `Bearer ${token}\u00a0`,
    `Bearer "${token}"`,
    `Bearer ${token}=`,
    `Bearer ${token}.`,
    `Bearer ${token}.e30`,
    `Bearer .${payload}.${signature}`,
    `Bearer ${head}.${payload}`,
    `Bearer ${head} .${payload}.${signature}`,
    `Basic ${token}`,
    `Basic ${credentials}`,
    `Basic ${credentials}, Bearer ${token}`,
    `Token ${token}`,
    `JWT ${token}`,
    `Bearer ${'a'.repeat(8_000)}`,
    `Bearer ${'a.'.repeat(4_000)}`,
  ]) {
    t.equal(await statusFor(authorization), 401, JSON.stringify(authorization.slice(0, 40)))
  }
  for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
    t.equal(await statusFor(`${scheme} ${token}`), 200, `${scheme}: the scheme is case-insensitive`)
  }
})

t.test('401 for two Authorization headers, in any order', async (t) => {
  const good = `Bearer ${ada.token}`
  for (const values of [
    [good, good],
    [good, `Bearer ${admin.token}`],
    [good, 'Basic eDp5'],
    ['Basic eDp5', good],
  ]) {
    const sent = request(`${service.url}/auth/me`, {
      headers: ['host', new URL(service.url).host, ...values.flatMap((value) => ['authorization', value])],
    }).end()
    const [response] = (await once(sent, 'response')) as [{ statusCode: number; resume(): void }]
    response.resume()
    t.equal(response.statusCode, 401, values.map((value) => value.slice(0, 8)).join(' and '))
  }
})

t.test('401 for a token outside of the Authorization header', async (t) => {
  const query = { access_token: ada.token }
  t.match(await service.call('getCurrentUser', { query }), refused)
  const headers = { cookie: `access_token=${ada.token}; token=${ada.token}`, 'x-access-token': ada.token }
  t.match(await service.call('getCurrentUser', { headers }), refused)
})

const someone = (username: string) => ({
  username,
  email: `${username}@example.com`,
  password: 'correct horse battery',
})

const refresh = (refreshToken: string) =>
  service.call('refreshToken', { body: { refresh_token: refreshToken } })

/** Exchanges a valid refresh token. */
const swap = async (refreshToken: string) => {
  const { body } = await service.expect('refreshToken', 200, { body: { refresh_token: refreshToken } })
  return { token: body.access_token, refreshToken: body.refresh_token }
}

t.test('20 concurrent refreshes with one token get the same pair of valid tokens', async (t) => {
  for (const round of [1, 2, 3]) {
    const account = await service.register(`racer${round}`)
    const pairs = await Promise.all(Array.from({ length: 20 }, () => swap(account.refreshToken)))
    t.equal(new Set(pairs.map(({ token }) => token)).size, 1, 'one access token')
    t.equal(new Set(pairs.map(({ refreshToken }) => refreshToken)).size, 1, 'one refresh token')
    const [pair = account] = pairs
    t.equal(await statusOf(pair.token), 200)
    const next = await swap(pair.refreshToken)
    t.not(next.token, pair.token)
    t.equal(await statusOf(next.token), 200)
  }
})

/** Moves the use of a user's refresh tokens into the past. */
const age = (account: Account, seconds: number) =>
  service.deps.db.run(
    `update refresh_tokens set spent_at = spent_at - $2::int * interval '1 second'
    from sessions where sessions.id = session_id and user_id = $1`,
    [account.id, seconds],
  )

t.test('a refresh repeated within 30 seconds gets the same pair', async (t) => {
  const account = await service.register('two-tabs')
  const pair = await swap(account.refreshToken)
  await age(account, 25)
  t.strictSame(await swap(account.refreshToken), pair)
  t.equal(await statusOf(pair.token), 200)
  t.equal(await statusOf(account.token), 200, 'the session continues')
  const [row] = await service.deps.db.run(
    'select count(*)::int as count from refresh_tokens token join sessions on sessions.id = session_id where user_id = $1',
    [account.id],
  )
  t.equal(row?.count, 2, 'no further token is stored')
  await swap(pair.refreshToken)
})

t.test('expires_in of a repeated refresh is the remaining lifetime', async (t) => {
  const account = await service.register('late-tab')
  await swap(account.refreshToken)
  await service.deps.db.run(
    `update refresh_tokens token set created_at = token.created_at - interval '20 seconds'
    from sessions where sessions.id = session_id and user_id = $1 and spent_at is null`,
    [account.id],
  )
  const body = { refresh_token: account.refreshToken }
  const { body: tokens } = await service.expect('refreshToken', 200, { body })
  const { iat, exp } = decode(tokens.access_token, 1)
  t.equal(Number(exp) - Number(iat), 900)
  t.ok(Math.abs(tokens.expires_in - (Number(exp) - now())) <= 2, `${tokens.expires_in} seconds`)
  t.ok(tokens.expires_in <= 880)
})

t.test('the database does not contain refresh tokens', async (t) => {
  const account = await service.register('dumped')
  const pair = await swap(account.refreshToken)
  const rows = await service.deps.db.run('select token::text as text from refresh_tokens token', [])
  const dump = rows.map(({ text }) => String(text)).join()
  for (const { refreshToken } of [account, pair]) {
    t.notOk(dump.includes(refreshToken.slice(4)))
    t.notOk(dump.includes(Buffer.from(refreshToken.slice(4), 'base64url').toString('hex')))
  }
})

t.test('reuse of a refresh token after 30 seconds ends its session immediately', async (t) => {
  const account = await service.register('stolen')
  const { body: other } = await service.expect('login', 200, {
    body: { email: account.email, password: account.password },
  })
  const second = await swap(account.refreshToken)
  t.equal(await statusOf(second.token), 200)
  await age(account, 31)
  const reused = await refresh(account.refreshToken)
  t.match(reused, { status: 401, body: { code: 'invalid_credentials' } })
  t.equal(await statusOf(second.token), 401)
  t.equal(await statusOf(account.token), 401)
  t.match(await refresh(second.refreshToken), { status: 401 })
  t.equal(await statusOf(other.access_token), 200, 'the other session continues')
  await swap(other.refresh_token)
})

t.test('reuse of a refresh token whose successor has been used ends its session', async (t) => {
  const account = await service.register('ancestor')
  const second = await swap(account.refreshToken)
  const third = await swap(second.refreshToken)
  const fourth = await swap(third.refreshToken)
  t.equal(await statusOf(fourth.token), 200)
  t.match(await refresh(second.refreshToken), { status: 401 })
  for (const { token, refreshToken } of [account, second, third, fourth]) {
    t.equal(await statusOf(token), 401)
    t.match(await refresh(refreshToken), { status: 401 })
  }
})

t.test('logout revokes access and refresh tokens immediately; repeated, it is 401', async (t) => {
  const account = await service.register('leaver')
  const { token, refreshToken } = await swap(account.refreshToken)
  t.equal(await statusOf(account.token), 200)
  await service.expect('logout', 204, { token })
  t.equal(await statusOf(token), 401)
  t.equal(await statusOf(account.token), 401, 'an earlier access token of the session')
  t.match(await refresh(refreshToken), { status: 401 })
  t.match(await service.call('logout', { token }), refused)
})

t.test('no token is valid after a concurrent refresh and logout', async (t) => {
  for (const round of [1, 2, 3, 4, 5, 6]) {
    const account = await service.register(`undecided${round}`)
    const calls = [
      () => refresh(account.refreshToken),
      () => service.call('logout', { token: account.token }),
    ]
    const [first, second] = await Promise.all(
      (round % 2 === 0 ? calls : calls.toReversed()).map((call) => call()),
    )
    const refreshed = [first, second].find((reply) => reply?.status === 200)
    t.ok([first, second].some((reply) => reply?.status === 204))
    t.equal(await statusOf(account.token), 401)
    if (refreshed === undefined) continue
    const { refresh_token, access_token } = refreshed.body as { refresh_token: string; access_token: string }
    t.equal(await statusOf(access_token), 401)
    t.match(await refresh(refresh_token), { status: 401 })
  }
})

t.test('204 or 401 for concurrent logouts', async (t) => {
  const account = await service.register('hasty')
  const replies = await Promise.all(
    Array.from({ length: 10 }, () => service.call('logout', { token: account.token })),
  )
  t.ok(replies.some(({ status }) => status === 204))
  t.ok(replies.every(({ status }) => status === 204 || status === 401))
  t.equal(await statusOf(account.token), 401)
})

const setRole = (account: Account, role: 'admin' | 'member') =>
  service.expect('updateUser', 200, {
    token: admin.token,
    params: { user_id: account.id.toUpperCase() },
    body: { role },
  })

t.test('promotion and demotion take effect on the next request', async (t) => {
  const account = await service.register('rising')
  const create = (username: string) =>
    service.call('createUser', { token: account.token, body: someone(username) })
  t.match(await create('rising-1'), { status: 403 })
  await setRole(account, 'admin')
  t.match(await create('rising-2'), { status: 201 })
  await setRole(account, 'member')
  t.match(await create('rising-3'), { status: 403 })
  const { body } = await service.expect('getUser', 200, {
    token: account.token,
    params: { user_id: ada.id },
  })
  t.equal(body.email, null)
})

t.test('deletion of a user takes effect on the next request', async (t) => {
  const account = await service.register('doomed')
  const { body: other } = await service.expect('login', 200, {
    body: { email: account.email, password: account.password },
  })
  for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 200)
  const params = { user_id: account.id.toUpperCase() }
  await service.expect('deleteUser', 204, { token: admin.token, params })
  for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 401)
  t.match(await refresh(account.refreshToken), { status: 401 })
  t.match(await refresh(other.refresh_token), { status: 401 })
  const again = { body: { email: account.email, password: account.password } }
  t.match(await service.call('login', again), { status: 401, body: { code: 'invalid_credentials' } })
})

t.test('sign-ins concurrent with a deletion leave no valid session', async (t) => {
  const account = await service.register('gone')
  const login = () => service.call('login', { body: { email: account.email, password: account.password } })
  // Five attempts in total, because a sixth would be delayed.
  const replies = await Promise.all([
    ...Array.from({ length: 3 }, login),
    service.call('deleteUser', { token: admin.token, params: { user_id: account.id } }),
    ...Array.from({ length: 2 }, login),
  ])
  t.ok(replies.every(({ status }) => [200, 204, 401].includes(status)))
  for (const { status, body } of replies) {
    if (status === 200) t.equal(await statusOf((body as { access_token: string }).access_token), 401)
  }
})

t.test('another instance sees a logout within 5 seconds', async (t) => {
  const account = await service.register('elsewhere')
  const { sub, sid } = decode(account.token, 1)
  const elsewhere = cacheCredentials(service.deps.db, { background: service.deps.db, log: console })
  const roleThere = async () => (await elsewhere.sessionPrincipal(String(sid), String(sub)))?.role ?? null
  t.equal(await roleThere(), 'member')
  const cached = Date.now()
  await service.expect('logout', 204, { token: account.token })
  const { accepted } = await untilRefused(async () => ((await roleThere()) === null ? 401 : 200))
  t.ok(accepted - cached < 6_000, `${accepted - cached} ms`)
})

t.test('a change that this version does not know ends every cached credential', async (t) => {
  const { token } = await service.register('newer')
  const { sub, sid } = decode(token, 1)
  let reads = 0
  let notify: (payload: string) => void = () => t.fail('The cache does not listen')
  const db: Database = {
    ...service.deps.db,
    run: (...query) => {
      reads += 1
      return service.deps.db.run(...query)
    },
    listen: (_channel, { onNotification }) => (notify = onNotification),
  }
  const credentials = cacheCredentials(db, { background: db, log: console })
  const changes: unknown[] = []
  credentials.onChange((change) => changes.push(change))
  const readsOfSession = async (): Promise<number> => {
    const before = reads
    t.ok(await credentials.sessionPrincipal(String(sid), String(sub)))
    return reads - before
  }
  t.equal(await readsOfSession(), 1)
  notify(JSON.stringify({ kind: 'session', sessionId: 'another' }))
  t.equal(await readsOfSession(), 0)
  for (const change of [
    { kind: 'session', sessionId: String(sid) },
    { kind: 'user', userId: String(sub) },
  ]) {
    notify(JSON.stringify(change))
    t.strictSame(changes.at(-1), change)
    t.equal(await readsOfSession(), 1, change.kind)
  }
  for (const payload of ['{"kind":"passkey","id":"1"}', '{"kind":"session"}', 'null', '{', '']) {
    changes.length = 0
    notify(payload)
    t.strictSame(changes, [null], payload)
    t.equal(await readsOfSession(), 1, payload)
  }
})
