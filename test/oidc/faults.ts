import t from 'tap'
import { createProviders } from '../../src/oidc/providers.ts'
import { NotAuthenticated, ProviderUnavailable } from '../../src/oidc/failures.ts'
import { browserAt, oidcConfig, providerOf, returnTo, startIssuer } from '../fixture/issuer.ts'
import { startService } from '../fixture/service.ts'

/** Providers that are slow, down or wrong: nobody gets in, the log says what to do, and others sign in as before. */

const [issuer, healthy] = [await startIssuer(), await startIssuer()]
const log: string[] = []
const logStream = { write: (line: string) => void log.push(line), flush: async () => undefined }
const service = await startService(t, {
  config: {
    logLevel: 'warn',
    oidc: oidcConfig([
      providerOf(issuer),
      providerOf(healthy, { id: 'healthy' }),
      providerOf(issuer, { id: 'template', issuer: `${issuer.url}/common` }),
    ]),
  },
  logStream,
  oidcLimits: { timeout: 2_000, maxBytes: 262_144 },
} as never)
const [browser, others] = [browserAt(service), browserAt(service, 'healthy')]

const person = (sub: string) => ({ sub, email: `${sub}@example.com`, email_verified: true })
healthy.claims = person('healthy')

type Answer = NonNullable<typeof issuer.intercept>

const atPath =
  (path: string, answer: (response: Parameters<Answer>[1]) => void): Answer =>
  (request, response) => {
    if (request.url?.split('?')[0] !== path) return false
    answer(response)
    return true
  }

const json = (response: Parameters<Answer>[1], body: unknown): void => {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
}

t.test('before the first request, a provider that does not work is asked for nothing', async (t) => {
  t.strictSame(issuer.requests, [])
  const body = { purpose: 'sign_in', return_to: returnTo, code_challenge: 'x'.repeat(43), state: 'x' }
  const refused = (id: string) => service.expect('authorizeOidc', 503, { params: { provider: id }, body })
  issuer.intercept = (_request, _response) => true
  const [, code] = await Promise.all([refused('mock'), others.code()])
  t.ok(code, 'others sign in')
  const { length } = issuer.requests
  await refused('mock')
  t.equal(issuer.requests.length, length, 'a failure is repeated for a moment')
  issuer.intercept = (request, response) => {
    if (request.url?.startsWith('/common') !== true) return false
    json(response, { issuer: issuer.url, jwks_uri: `${issuer.url}/jwks` })
    return true
  }
  await refused('template')
  issuer.intercept = null
})

t.test('a discovery document with another issuer, or with an address that must not be used', async (t) => {
  const one = await startIssuer()
  const isRefused = async (name: string, settings: { issuer?: string } = {}) => {
    const [provider] = createProviders(oidcConfig([providerOf(one, settings)])).all
    await t.rejects(Promise.resolve(provider?.discover()), ProviderUnavailable, name)
  }
  await isRefused('a slash at the end', { issuer: `${one.url}/` })
  const script = 'javascript:alert(1)'
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'])
    for (const url of [script, 'http://provider.example/', undefined]) {
      one.metadata = { [name]: url }
      await isRefused(`${name} ${url}`)
    }
  for (const name of ['userinfo_endpoint', 'end_session_endpoint']) {
    one.metadata = { [name]: script }
    await isRefused(name)
  }
})

t.test('a user is told whether a retry helps', async (t) => {
  const one = await startIssuer()
  const at = await startService(t, {
    config: {
      oidc: oidcConfig([
        providerOf(one, { id: 'slash', issuer: `${one.url}/` }),
        providerOf(one, { id: 'moved', issuer: `${one.url}/moved` }),
        providerOf(one, { id: 'failing', issuer: `${one.url}/failing` }),
        providerOf(one, { id: 'breaking', issuer: `${one.url}/breaking` }),
        providerOf(one, { id: 'down', issuer: 'http://127.0.0.1:9' }),
      ]),
    },
  })
  one.intercept = ({ url = '' }, response) => {
    if (url.startsWith('/moved')) response.writeHead(301, { location: '/' }).end()
    else if (url.startsWith('/failing')) response.writeHead(502).end()
    else if (url.startsWith('/breaking'))
      response.writeHead(200, { 'content-type': 'application/json' }).write('{', () => response.destroy())
    else return false
    return true
  }
  const body = { purpose: 'sign_in', return_to: returnTo, code_challenge: 'x'.repeat(43), state: 'x' }
  for (const [provider, detail] of [
    ['slash', /not set up correctly/],
    ['moved', /not set up correctly/],
    ['failing', /does not respond. Retry/],
    ['breaking', /does not respond. Retry/],
    ['down', /does not respond. Retry/],
  ] as const) {
    const reply = await at.expect('authorizeOidc', 503, { params: { provider }, body })
    t.match(reply.body.detail, detail, provider)
  }
})

t.test('a discovery document that names addresses of this machine', async (t) => {
  const https = 'https://login.example'
  const asked: string[] = []
  /** Whether a provider is used whose discovery document has these endpoints. It is asked for nothing else if not. */
  const isUsed = async (issuer: string, endpoints: Readonly<Record<string, string>>) => {
    const document = {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      ...endpoints,
    }
    const { fetch } = globalThis
    t.teardown(() => Object.assign(globalThis, { fetch }))
    Object.assign(globalThis, {
      fetch: async (url: string) => {
        asked.push(url)
        return Response.json(document)
      },
    })
    const [provider] = createProviders(oidcConfig([providerOf({ url: issuer })])).all
    asked.length = 0
    const failure = await provider?.verifyLogoutToken('x.y.z').catch((error: unknown) => error)
    Object.assign(globalThis, { fetch })
    if (failure instanceof ProviderUnavailable)
      t.strictSame(asked, [`${issuer}/.well-known/openid-configuration`], 'asked for nothing else')
    return failure instanceof NotAuthenticated
  }
  t.equal(await isUsed(https, {}), true)
  t.equal(await isUsed(https, { jwks_uri: 'https://keys.example/' }), true, 'another host')
  t.equal(await isUsed(https, { jwks_uri: 'https://10.0.0.1/' }), true, 'a private network')
  const local = [
    'http://127.0.0.1:5432/',
    'https://127.0.0.1:5432/',
    'https://127.1/',
    'https://localhost/',
    'https://localhost./',
    'https://keys.localhost/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://0.0.0.0/',
    'https://[::]/',
  ]
  for (const url of local) t.equal(await isUsed(https, { jwks_uri: url }), false, url)
  for (const name of [
    'authorization_endpoint',
    'token_endpoint',
    'userinfo_endpoint',
    'end_session_endpoint',
  ])
    t.equal(await isUsed(https, { [name]: 'https://127.0.0.1/' }), false, name)
  t.equal(await isUsed('https://localhost:8443', {}), true, 'an issuer on this machine')
  t.equal(await isUsed('https://localhost:8443', { jwks_uri: 'https://localhost:5432/' }), false)
  t.equal(
    await isUsed('http://localhost:8080', { jwks_uri: 'http://localhost:8081/' }),
    true,
    'for development',
  )
})

t.test('a provider that fails after the user has authenticated', async (t) => {
  // The failure of before is forgotten.
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  issuer.claims = person('faulty')
  t.ok((await browser.answer()).has('code'))

  const cases: Readonly<Record<string, readonly [Answer, string, RegExp]>> = {
    slow: [atPath('/token', () => undefined), 'temporarily_unavailable', /did not answer in time|timeout/i],
    'an error': [
      atPath('/token', (response) => void response.writeHead(500).end('oops')),
      'server_error',
      /unexpected status/,
    ],
    'an error of the protocol': [
      atPath('/token', (response) => {
        response.statusCode = 400
        json(response, { error: 'invalid_client' })
      }),
      'server_error',
      /check client_id, the client secret/,
    ],
    'no JSON': [
      atPath('/token', (response) => void response.end('<html>')),
      'server_error',
      /not JSON|content-type/,
    ],
    'a redirect': [
      atPath('/token', (response) => void response.writeHead(302, { location: '/other' }).end()),
      'temporarily_unavailable',
      /answers with a redirect/,
    ],
    'a megabyte of claims': [
      atPath('/token', (response) => json(response, { id_token: 'x'.repeat(1_048_576) })),
      'temporarily_unavailable',
      /more than 262144 bytes/,
    ],
    'a connection that breaks': [
      atPath('/token', (response) => void response.destroy()),
      'temporarily_unavailable',
      /fetch failed/,
    ],
  }
  for (const [name, [intercept, error, reason]] of Object.entries(cases)) {
    issuer.intercept = intercept
    log.length = 0
    const parameters = await browser.answer()
    issuer.intercept = null
    t.equal(parameters.get('error'), error, name)
    t.match(log.join(''), reason, name)
    t.match(log.join(''), parameters.get('request_id') ?? 'none', name)
    t.ok((await others.answer()).has('code'), `others sign in while there is ${name}`)
  }

  t.test('user info that fails: the claims of the ID token do, and the log names the request', async (t) => {
    const failures: Readonly<Record<string, (response: Parameters<Answer>[1]) => void>> = {
      refused: (response) => void response.writeHead(403).end(),
      'refused with a challenge': (response) =>
        void response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end(),
      failing: (response) => void response.writeHead(500).end('oops'),
      'a signed JWT': (response) =>
        void response.setHeader('content-type', 'application/jwt').end('eyJhbGciOiJIUzI1NiJ9.e30.x'),
      'no JSON': (response) => void response.end('<html>'),
      broken: (response) => void response.destroy(),
    }
    for (const [name, answer] of Object.entries(failures)) {
      issuer.intercept = atPath('/userinfo', answer)
      issuer.claims = person('faulty')
      log.length = 0
      t.ok((await browser.answer()).has('code'), name)
      t.match(log.join(''), /request for the user info of the identity provider mock failed/, name)
      t.notMatch(log.join(''), /check issuer/, name)
    }
    issuer.intercept = atPath('/userinfo', (response) => json(response, { sub: 'another' }))
    log.length = 0
    t.equal((await browser.answer()).get('error'), 'server_error')
    t.match(log.join(''), /user info is of another user than the ID token/)
    t.notMatch(log.join(''), /discovery document/)
    issuer.intercept = null
  })

  t.test('claims that are large, but not too large', async (t) => {
    issuer.claims = {
      ...person('large'),
      groups: Array.from({ length: 5_000 }, (_, index) => `group-${index}`),
    }
    t.ok((await browser.answer()).has('code'))
  })

  t.test('a clock that is off by five minutes', async (t) => {
    issuer.claims = person('late')
    for (const minutes of [-10, 10]) {
      issuer.alterToken = ({ payload }) => {
        const now = Math.floor(Date.now() / 1_000) + minutes * 60
        Object.assign(payload, { iat: now, nbf: now, exp: now + 300 })
      }
      log.length = 0
      t.equal((await browser.answer()).get('error'), 'server_error')
      t.match(log.join(''), /compare the clocks/)
    }
    issuer.alterToken = null
  })

  t.test('keys that were rotated: read again, at most once a minute', async (t) => {
    issuer.claims = person('rotated')
    const reads = () => issuer.requests.filter((path) => path === '/jwks').length
    const before = reads()
    await issuer.rotateKeys()
    for (let attempt = 0; attempt < 5; attempt += 1) {
      log.length = 0
      t.equal((await browser.answer()).get('error'), 'server_error')
    }
    t.match(log.join(''), /can take a minute/)
    t.ok(reads() - before <= 1, `${reads() - before} reads`)
  })
})
