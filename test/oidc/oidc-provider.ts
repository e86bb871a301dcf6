import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import t from 'tap'
import {
  browserAt,
  clientId,
  oidcConfig,
  providerOf,
  publicUrl,
  returnTo,
  verifier,
} from '../fixture/issuer.ts'
import { eventually } from '../fixture/eventually.ts'
import { startService } from '../fixture/service.ts'

/** The whole way with oidc-provider, a certified implementation of OpenID Connect, whose own pages a browser fills in. */

const clientSecret = 'a secret of the client, which is long enough'
const port = createServer()
port.listen(0, '127.0.0.1')
await once(port, 'listening')
const issuer = `http://127.0.0.1:${(port.address() as AddressInfo).port}`

const service = await startService(t, {
  config: {
    oidc: oidcConfig([providerOf({ url: issuer }, { clientSecret })]),
  },
})
/** The service is not at its public URL. */
const atService = (url: string): string => url.replace(publicUrl, service.url)

const logouts: number[] = []
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: [`${publicUrl}/auth/oidc/mock/callback`],
      post_logout_redirect_uris: [returnTo],
      id_token_signed_response_alg: 'ES256',
      backchannel_logout_uri: `${publicUrl}/auth/oidc/mock/backchannel-logout`,
      backchannel_logout_session_required: true,
    },
  ],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
  cookies: { keys: ['a key of the cookies'] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'] },
  features: { backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  pkce: { required: () => true },
  findAccount: (_ctx, sub) => ({
    accountId: sub,
    claims: () => ({
      sub,
      email: `${sub}@example.com`,
      email_verified: true,
      name: `The ${sub}`,
      preferred_username: sub,
    }),
  }),
  // Sends logout tokens. Without the provider's dispatcher, which refuses connections to this machine.
  async fetch(url, { headers = {}, body = null } = {}) {
    const response = await fetch(atService(new Request(url).url), { method: 'POST', headers, body })
    logouts.push(response.status)
    return response
  },
})
port.on('request', provider.callback())
t.teardown(() => port.close())

/** A browser with cookies of the provider, whose user has this name there and agrees to everything. */
const openBrowser = (name: string) => {
  const cookies = new Map<string, string>()
  const forms: string[] = []
  const request = async (url: string, body?: URLSearchParams): Promise<Response> => {
    const cookie = [...cookies].map(([key, value]) => `${key}=${value}`).join('; ')
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie },
      ...(body !== undefined && { method: 'POST', body }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (value === '') cookies.delete(key)
      else cookies.set(key, value)
    }
    return response
  }
  /** Follows redirects and submits forms until the provider sends the browser elsewhere. */
  const visit = async (start: string): Promise<string> => {
    let response = await request(start)
    for (let step = 0; step < 20; step += 1) {
      const location = response.headers.get('location')
      const next = location === null ? null : new URL(location, issuer).href
      if (next !== null && !next.startsWith(issuer)) return next
      if (next === null) {
        const page = await response.text()
        const action = /<form[^>]* action="([^"]+)"/.exec(page)?.[1]
        if (action === undefined) throw new Error(`A page without a form: ${page.slice(0, 500)}`)
        const fields = new URLSearchParams(
          [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
            ([, key = '', value = '']): [string, string] => [key, value],
          ),
        )
        const kind = fields.get('prompt') ?? 'logout'
        forms.push(kind)
        if (kind === 'login')
          for (const [key, value] of [
            ['login', name],
            ['password', 'x'],
          ] as const)
            fields.set(key, value)
        if (kind === 'logout') fields.set('logout', 'yes')
        response = await request(new URL(action, issuer).href, fields)
      } else response = await request(next)
    }
    throw new Error('The provider sends the browser round in circles')
  }
  const at = browserAt(service)
  return {
    visit,
    /** The forms that were submitted since the last call. */
    submitted: () => forms.splice(0),
    /** A code of the service, and its verifier. */
    async code(purpose: 'sign_in' | 'link' | 'reauthenticate' = 'sign_in') {
      const url = await at.begin({ purpose })
      const parameters = await at.comeBack(atService(await visit(url)))
      const code = parameters.get('code')
      if (code === null) throw new Error(`There is no code but ${parameters.toString()}`)
      return { code, code_verifier: verifier }
    },
  }
}

t.test('sign-in, proof of identity, and both ways to sign out', async (t) => {
  const browser = openBrowser('ada')
  const exchange = async () =>
    (await service.expect('exchangeOidcCode', 200, { body: await browser.code() })).body
  const statusOf = async (token: string) => (await service.call('getCurrentUser', { token })).status

  const first = await exchange()
  t.strictSame(browser.submitted(), ['login', 'consent'])
  t.match(first.user, { username: 'ada', display_name: 'The ada', email: 'ada@example.com' })
  const second = await exchange()
  t.strictSame(browser.submitted(), [], 'the browser is signed in at the provider')
  t.equal(second.user.id, first.user.id)

  t.test('without auth_time, a sign-in is no recent authentication; reauthentication is', async (t) => {
    const request = { token: first.access_token, params: { user_id: first.user.id } }
    const change = { ...request, body: { email: 'countess@example.com' } }
    const { body } = await service.expect('updateUser', 403, change)
    t.equal(body.code, 'reauthentication_required')
    const proof = { oidc: await browser.code('reauthenticate') }
    await service.expect('reauthenticate', 204, { token: first.access_token, body: proof })
    await service.expect('updateUser', 200, change)
    const another = { oidc: await openBrowser('grace').code('reauthenticate') }
    await service.expect('reauthenticate', 422, { token: first.access_token, body: another })
  })

  t.test('signing out here and at the provider ends the other sessions of the browser', async (t) => {
    const elsewhere = openBrowser('ada')
    const third = (await service.expect('exchangeOidcCode', 200, { body: await elsewhere.code() })).body
    const grace = openBrowser('grace')
    const bystander = (await service.expect('exchangeOidcCode', 200, { body: await grace.code() })).body
    const signOut = { token: first.access_token, body: { return_to: returnTo } }
    const { logout_url } = (await service.expect('logoutOidc', 200, signOut)).body
    t.equal(await statusOf(first.access_token), 401)
    t.equal(await statusOf(second.access_token), 200)
    browser.submitted()
    t.match(await browser.visit(logout_url ?? ''), new RegExp(`^${returnTo}`))
    t.strictSame(browser.submitted(), ['logout'])
    t.strictSame(logouts, [200], 'the logout token is accepted')
    await eventually('the session ends', async () => (await statusOf(second.access_token)) === 401)
    t.equal(await statusOf(third.access_token), 200, 'another browser')
    t.equal(await statusOf(bystander.access_token), 200)

    const back = await exchange()
    t.strictSame(browser.submitted(), ['login', 'consent'], 'the provider asks again')
    t.equal(back.user.id, first.user.id)
  })
})
