import t from 'tap'
import { localClient } from '../../src/domain/activity/audit.ts'
import { shellPrincipal } from '../../src/domain/shared/permissions.ts'
import { createContext } from '../../src/services/shared/context.ts'
import { allowPassword } from '../../src/services/accounts/passwords.ts'
import {
  browserAt,
  challenge,
  oidcConfig,
  providerOf,
  returnTo,
  startIssuer,
  verifier,
} from '../fixture/issuer.ts'
import { authenticator, secondFactorActions } from '../fixture/second-factor.ts'
import { type Account, startService } from '../fixture/service.ts'
import { projectActions } from '../fixture/projects.ts'

const issuer = await startIssuer()
const log: string[] = []
const service = await startService(t, {
  config: {
    logLevel: 'warn',
    oidc: oidcConfig([providerOf(issuer), providerOf(issuer, { id: 'down', issuer: 'http://127.0.0.1:9' })]),
  },
  logStream: { write: (line) => void log.push(line) },
})
const { db } = service.deps
const admin = await service.register('admin')
const browser = browserAt(service)
const { guard, forgetLastCode } = secondFactorActions(service)

/** Somebody whom the provider knows, with a verified address. */
const person = (sub: string) => ({
  sub,
  email: `${sub}@example.com`,
  email_verified: true,
  preferred_username: sub,
})

const codeFor = async (sub: string, purpose: 'sign_in' | 'link' = 'sign_in') => {
  issuer.claims = person(sub)
  return browser.code(purpose)
}

const signIn = async (sub: string) =>
  (await service.expect('exchangeOidcCode', 200, { body: await codeFor(sub) })).body

const link = async ({ token }: Pick<Account, 'token'>, sub: string) =>
  (await service.expect('linkIdentity', 201, { token, body: await codeFor(sub, 'link') })).body

const forgetAuthentication = ({ id }: Pick<Account, 'id'>) =>
  db.run('update sessions set authenticated_at = to_timestamp(0) where user_id = $1', [id])

t.test('listOidcProviders', async (t) => {
  t.test('200: without secrets', async (t) => {
    const { body } = await service.expect('listOidcProviders', 200)
    t.strictSame(body, {
      providers: [
        { id: 'mock', name: 'Mock', issuer: issuer.url },
        { id: 'down', name: 'Mock', issuer: 'http://127.0.0.1:9' },
      ],
      password_sign_in: true,
    })
  })
})

t.test('authorizeOidc', async (t) => {
  const body = { purpose: 'sign_in', return_to: returnTo, code_challenge: challenge, state: 'mine' }
  const params = { provider: 'mock' }

  t.test('200: a request with PKCE, a nonce and a sealed state', async (t) => {
    const url = new URL(await browser.begin())
    const { code_challenge, nonce, state, ...rest } = Object.fromEntries(url.searchParams)
    t.strictSame(rest, {
      client_id: 'taskwright',
      code_challenge_method: 'S256',
      redirect_uri: 'https://tasks.example/auth/oidc/mock/callback',
      response_type: 'code',
      scope: 'openid email profile',
    })
    t.match(code_challenge, /^[\w-]{43}$/)
    t.not(code_challenge, challenge, 'the verifier of the client is not that of the service')
    t.match(nonce, /^[\w-]{43}$/)
    t.notMatch(Buffer.from(state ?? '', 'base64url').toString('latin1'), /mine|callback/)
    t.not(new URL(await browser.begin()).searchParams.get('state'), state)
  })

  t.test('200: a recent authentication is asked for to reauthenticate', async (t) => {
    t.equal(new URL(await browser.begin({ purpose: 'reauthenticate' })).searchParams.get('max_age'), '900')
  })

  t.test('200 and 400: addresses to return to are compared exactly', async (t) => {
    const allowed = [
      returnTo,
      'http://127.0.0.1/callback',
      'http://127.0.0.1:49152/callback',
      'https://tasks.example/docs',
    ]
    const refused = [
      `${returnTo}/`,
      `${returnTo}?x`,
      'https://app.example/Callback',
      'https://app.example.evil/callback',
      'https://evil@app.example/callback',
      'http://app.example/callback',
      'http://localhost:49152/callback',
      'http://127.0.0.1:49152/callback/../other',
      'http://127.0.0.1:80@evil.example/callback',
      'http://127.1:49152/callback',
      'http://[::1]:49152/callback',
      'https://127.0.0.1:49152/callback',
      'javascript:alert(1)',
    ]
    for (const return_to of allowed)
      await service.expect('authorizeOidc', 200, { params, body: { ...body, return_to } })
    for (const return_to of refused) {
      const reply = await service.expect('authorizeOidc', 400, { params, body: { ...body, return_to } })
      t.match(reply.body, { errors: [{ pointer: '/return_to' }] }, return_to)
    }
  })

  t.test('404: an unknown provider', async () => {
    await service.expect('authorizeOidc', 404, { params: { provider: 'other' }, body })
  })

  t.test('503: a provider that is down', async (t) => {
    const reply = await service.expect('authorizeOidc', 503, { params: { provider: 'down' }, body })
    t.match(reply.body, { detail: 'The identity provider does not respond. Retry in a few seconds.' })
  })
})

t.test('exchangeOidcCode', async (t) => {
  t.test(
    '200: a first sign-in creates an account from the claims, and later ones do not change it',
    async (t) => {
      issuer.claims = {
        ...person('ada'),
        email: 'Ada@Example.COM',
        preferred_username: 'Ada Lovelace@example',
        name: '  Ada  ',
        zoneinfo: 'europe/berlin',
      }
      const first = (await service.expect('exchangeOidcCode', 200, { body: await browser.code() })).body
      t.match(first.user, {
        username: 'ada-lovelace',
        display_name: 'Ada',
        email: 'ada@example.com',
        time_zone: 'Europe/Berlin',
        role: 'member',
      })
      issuer.claims = {
        ...person('ada'),
        email: 'countess@example.com',
        name: 'Countess',
        preferred_username: 'admin',
      }
      const second = (await service.expect('exchangeOidcCode', 200, { body: await browser.code() })).body
      t.strictSame(second.user, first.user)
      const { body } = await service.expect('listIdentities', 200, { token: second.access_token })
      t.match(body.items, [{ issuer: issuer.url, email: 'countess@example.com' }])
    },
  )

  t.test('200: two first sign-ins at once are one account', async (t) => {
    const codes = [await codeFor('hurried'), await codeFor('hurried')]
    const replies = await Promise.all(codes.map((body) => service.expect('exchangeOidcCode', 200, { body })))
    t.equal(replies[0]?.body.user.id, replies[1]?.body.user.id)
  })

  t.test('200: a taken username gets a suffix', async (t) => {
    await service.register('taken')
    issuer.claims = { ...person('another'), preferred_username: 'taken' }
    const { body } = await service.expect('exchangeOidcCode', 200, { body: await browser.code() })
    t.match(body.user.username, /^taken-[0-9]{5}$/)
  })

  t.test('200: claims of the user info complete the ID token', async (t) => {
    issuer.claims = { sub: 'sparse' }
    issuer.userInfo = { email: 'sparse@example.com', email_verified: true, name: 'Sparse' }
    const { body } = await service.expect('exchangeOidcCode', 200, { body: await browser.code() })
    t.match(body.user, { username: 'sparse', display_name: 'Sparse' })
    issuer.userInfo = {}
  })

  t.test('200: a new account accepts an invitation', async (t) => {
    const { createProject } = projectActions(service)
    const project = await createProject(admin, 'Shared')
    const body = { email: 'guest@example.com', role: 'editor' }
    await service.expect('createInvitation', 201, {
      token: admin.token,
      params: { project_id: project.id },
      body,
    })
    issuer.claims = person('guest')
    const exchange = await browser.code('sign_in', { invitation_token: service.invitations.at(-1)?.token })
    const { access_token: token } = (await service.expect('exchangeOidcCode', 200, { body: exchange })).body
    const shown = await service.expect('getProject', 200, { token, params: { project_id: project.id } })
    t.equal(shown.body.role, 'editor')
  })

  t.test('401: each code works once, with its verifier, for its purpose', async (t) => {
    const refused = async (body: object) => {
      const { body: problem } = await service.expect('exchangeOidcCode', 401, { body })
      t.equal(problem.code, 'invalid_credentials')
    }
    const used = await codeFor('once')
    await service.expect('exchangeOidcCode', 200, { body: used })
    await refused(used)
    const burnt = await codeFor('once')
    await refused({ ...burnt, code_verifier: 'w'.repeat(43) })
    await refused(burnt)
    const malformed = await codeFor('once')
    await refused({ ...malformed, code_verifier: 'short' })
    await refused(malformed)
    await refused({ code: `two_${'x'.repeat(43)}`, code_verifier: verifier })
    await refused({ code: 'two_x', code_verifier: verifier })
    await refused(await codeFor('once', 'link'))
    const late = await codeFor('once')
    await db.run(`update oidc_codes set expires_at = now() - interval '1 ms'`, [])
    await refused(late)
  })

  t.test('401: the second factor of the account is asked, and completes the same session', async (t) => {
    const grace = await guard(await service.register('grace'))
    await link(grace, 'grace')
    const { body } = await service.expect('exchangeOidcCode', 401, { body: await codeFor('grace') })
    t.equal(body.code, 'second_factor_required')
    await forgetLastCode(grace)
    const completion = { challenge: body.challenge, code: grace.codeAt() }
    const done = await service.expect('completeLogin', 200, { body: completion })
    const rows = await db.run(
      `select extract(epoch from expires_at - created_at)::int as lifetime from sessions join provider_sessions on id = session_id
       where user_id = $1`,
      [grace.id],
    )
    t.strictSame([...rows], [{ lifetime: 86_400 }])
    t.equal(done.body.user.id, grace.id)
  })

  t.test('403: a disabled account, and none at all', async (t) => {
    const { user } = await signIn('dismissed')
    const disabling = { token: admin.token, params: { user_id: user.id }, body: { is_disabled: true } }
    await service.expect('updateUser', 200, disabling)
    const { body } = await service.expect('exchangeOidcCode', 403, { body: await codeFor('dismissed') })
    t.equal(body.code, 'account_disabled')
  })

  t.test('409: an address of another account', async (t) => {
    issuer.claims = { ...person('impostor'), email: admin.email }
    const { body } = await service.expect('exchangeOidcCode', 409, { body: await browser.code() })
    t.equal(body.code, 'email_taken')
  })

  t.test('422: an invalid invitation', async (t) => {
    issuer.claims = person('uninvited')
    const exchange = await browser.code('sign_in', { invitation_token: 'twi_none' })
    const { body } = await service.expect('exchangeOidcCode', 422, { body: exchange })
    t.equal(body.code, 'invitation_invalid')
  })

  t.test('200: an access token lasts 15 minutes, and the session a day', async (t) => {
    const { access_token: token, expires_in } = await signIn('daily')
    t.equal(expires_in, 900)
    const [session] = (await service.expect('listSessions', 200, { token })).body.items
    t.equal(Date.parse(session?.expires_at ?? '') - Date.parse(session?.created_at ?? ''), 86_400_000)
  })
})

t.test('linkIdentity', async (t) => {
  const ada = await service.register('linker')

  t.test('201: signs in to the account from then on, whatever its address', async (t) => {
    t.match(await link(ada, 'linked'), { issuer: issuer.url, email: 'linked@example.com' })
    t.equal((await signIn('linked')).user.id, ada.id)
  })

  t.test('409: one identity of each provider, and one account of each identity', async (t) => {
    const refused = async ({ token }: Pick<Account, 'token'>, sub: string) => {
      const { body } = await service.expect('linkIdentity', 409, { token, body: await codeFor(sub, 'link') })
      t.equal(body.code, 'identity_taken')
    }
    await refused(ada, 'linked')
    await refused(ada, 'unlinked')
    await refused(await service.register('second'), 'linked')
  })

  t.test('422: a code for another purpose, or used', async (t) => {
    const grace = await service.register('third')
    const { body } = await service.expect('linkIdentity', 422, {
      token: grace.token,
      body: await codeFor('free'),
    })
    t.match(body, { code: 'wrong_code', errors: [{ pointer: '/code' }] })
  })

  t.test('403: a session that has not authenticated recently', async (t) => {
    const grace = await service.register('fourth')
    await forgetAuthentication(grace)
    const request = { token: grace.token, body: await codeFor('free', 'link') }
    t.equal((await service.expect('linkIdentity', 403, request)).body.code, 'reauthentication_required')
  })
})

t.test('listIdentities', async (t) => {
  t.test('200: only those of the caller', async (t) => {
    const ada = await service.register('lister')
    t.strictSame((await service.expect('listIdentities', 200, { token: ada.token })).body.items, [])
    const identity = await link(ada, 'listed')
    t.strictSame((await service.expect('listIdentities', 200, { token: ada.token })).body.items, [identity])
  })
})

t.test('unlinkIdentity', async (t) => {
  t.test('204: ends the sessions of the identity, and it signs in no more', async (t) => {
    const ada = await service.register('leaver')
    const { id: identity_id } = await link(ada, 'leaver-at-mock')
    const { access_token } = await signIn('leaver-at-mock')
    await service.expect('unlinkIdentity', 204, { token: ada.token, params: { identity_id } })
    await service.expect('getCurrentUser', 401, { token: access_token })
    await service.expect('getCurrentUser', 200, { token: ada.token })
    t.not((await signIn('leaver-at-mock')).user.id, ada.id)
    await service.expect('unlinkIdentity', 404, { token: ada.token, params: { identity_id } })
  })

  t.test('404: an identity of somebody else', async () => {
    const [ada, grace] = [await service.register('owner-1'), await service.register('owner-2')]
    const { id: identity_id } = await link(ada, 'owned')
    await service.expect('unlinkIdentity', 404, { token: grace.token, params: { identity_id } })
  })

  t.test('403: a session that has not authenticated recently', async () => {
    const ada = await service.register('stale')
    const { id: identity_id } = await link(ada, 'stale')
    await forgetAuthentication(ada)
    await service.expect('unlinkIdentity', 403, { token: ada.token, params: { identity_id } })
  })

  t.test('409: the last way to sign in', async (t) => {
    const { access_token: token } = await signIn('only-here')
    const [identity] = (await service.expect('listIdentities', 200, { token })).body.items
    const request = { token, params: { identity_id: identity?.id ?? '' } }
    t.equal((await service.expect('unlinkIdentity', 409, request)).body.code, 'last_sign_in_method')
  })
})

t.test('what a browser comes back with', async (t) => {
  t.test('a code, the state of the client, and the issuer of the code', async (t) => {
    issuer.claims = person('back')
    const parameters = await browser.answer({ state: 'a&b=c', return_to: 'http://127.0.0.1:5000/callback' })
    t.match(Object.fromEntries(parameters), { code: /^two_/, state: 'a&b=c', iss: 'https://tasks.example' })
  })

  t.test('HEAD does not use up the code of the provider', async (t) => {
    const callback = await browser.authenticate(await browser.begin())
    t.equal((await fetch(callback, { method: 'HEAD', redirect: 'manual' })).status, 405)
    t.ok((await browser.comeBack(callback)).has('code'))
  })

  t.test('an error of the provider, and the id of the request', async (t) => {
    issuer.alterRedirect = (url) => {
      url.searchParams.delete('code')
      url.searchParams.set('error', 'access_denied')
    }
    const parameters = Object.fromEntries(await browser.answer())
    issuer.alterRedirect = null
    t.match(parameters, { error: 'access_denied', state: 'mine', iss: 'https://tasks.example' })
    t.match(parameters.request_id, /^[\w-]{36}$/)
    t.notOk('code' in parameters)
  })
})

t.test('reauthenticate', async (t) => {
  const now = () => Math.floor(Date.now() / 1_000)
  const proof = async (claims: object) => {
    issuer.claims = { ...claims }
    return { oidc: await browser.code('reauthenticate') }
  }

  t.test('204: by an identity of the account, as of when it has authenticated', async (t) => {
    const { access_token: token, user } = await signIn('prover')
    await forgetAuthentication(user)
    const params = { user_id: user.id }
    t.equal(
      (await service.expect('deleteUser', 403, { token, params })).body.code,
      'reauthentication_required',
    )
    const auth_time = now() - 600
    await service.expect('reauthenticate', 204, { token, body: await proof({ sub: 'prover', auth_time }) })
    const [row] = await db.run(
      'select extract(epoch from authenticated_at)::int as at from sessions where user_id = $1',
      [user.id],
    )
    t.equal(row?.at, auth_time)
    await service.expect('deleteUser', 204, { token, params })
  })

  t.test('422: another identity, a code for another purpose, or a used one', async (t) => {
    const { access_token: token } = await signIn('prover-2')
    const used = await proof({ sub: 'prover-2' })
    await service.expect('reauthenticate', 204, { token, body: used })
    for (const body of [
      used,
      await proof({ sub: 'somebody-else' }),
      { oidc: await codeFor('prover-2', 'link') },
    ])
      t.equal((await service.expect('reauthenticate', 422, { token, body })).body.code, 'wrong_code')
  })

  t.test('an authentication that is old, or of an unknown time, is no proof', async (t) => {
    for (const [auth_time, reason, remedy] of [
      [now() - 1_000, /has authenticated the user more than 15 minutes ago/, /Sign out there/],
      [undefined, /does not say when users have authenticated/, /your password or a code of your second/],
    ] as const) {
      issuer.claims = { sub: 'prover', auth_time }
      log.length = 0
      const parameters = await browser.answer({ purpose: 'reauthenticate' })
      t.equal(parameters.get('error'), 'unmet_authentication_requirements')
      t.match(parameters.get('error_description'), remedy)
      t.notOk(parameters.has('code'))
      t.match(log.join(''), reason)
      t.match(log.join(''), parameters.get('request_id') ?? 'none')
    }
    issuer.claims = { sub: 'prover', auth_time: 'now' }
    t.equal((await browser.answer({ purpose: 'reauthenticate' })).get('error'), 'server_error')
  })

  t.test('a sign-in is as recent as the authentication that the provider says', async () => {
    issuer.claims = { ...person('sleeper'), auth_time: now() - 86_400 }
    const { access_token: token, user } = (
      await service.expect('exchangeOidcCode', 200, { body: await browser.code() })
    ).body
    await service.expect('deleteUser', 403, { token, params: { user_id: user.id } })
  })

  t.test('a sign-in at a time that the provider does not say is no recent authentication', async () => {
    issuer.claims = { ...person('undated'), auth_time: undefined }
    const { access_token: token, user } = (
      await service.expect('exchangeOidcCode', 200, { body: await browser.code() })
    ).body
    await service.expect('deleteUser', 403, { token, params: { user_id: user.id } })
  })

  t.test('a time that cannot be is refused', async (t) => {
    for (const auth_time of [1.5, 1e15]) {
      issuer.claims = { ...person('timeless'), auth_time }
      t.equal((await browser.answer()).get('error'), 'server_error')
    }
  })
})

t.test('an account without a password', async (t) => {
  const { access_token: token, user } = await signIn('passwordless')
  const password = 'some password'
  const refused = async (id: 'reauthenticate' | 'changePassword' | 'enrollSecondFactor', body: object) =>
    t.equal((await service.expect(id, 409, { token, body })).body.code, 'no_password')

  t.test('409: each operation that takes the password', async (t) => {
    await refused('reauthenticate', { password })
    await refused('changePassword', { current_password: password, new_password: 'another password' })
    await refused('enrollSecondFactor', { password })
    const change = {
      token,
      params: { user_id: user.id },
      body: { current_password: password, display_name: 'X' },
    }
    t.equal((await service.expect('updateUser', 409, change)).body.code, 'no_password')
    const login = { body: { username: user.username, password } }
    t.equal((await service.expect('login', 401, login)).body.code, 'invalid_credentials')
  })

  t.test('202: no email resets what there is not', async (t) => {
    const mails = service.mails.length
    await service.expect('forgotPassword', 202, { body: { email: user.email } })
    t.equal(service.mails.length, mails)
  })

  t.test(
    'a second factor is enrolled and disabled in a session that has authenticated recently',
    async (t) => {
      await forgetAuthentication(user)
      const stale = await service.expect('enrollSecondFactor', 403, { token, body: {} })
      t.equal(stale.body.code, 'reauthentication_required')
      const fresh = await signIn('passwordless')
      const request = { token: fresh.access_token }
      const { body } = await service.expect('enrollSecondFactor', 201, { ...request, body: {} })
      const codeAt = authenticator(body.secret)
      await service.expect('confirmSecondFactor', 200, { ...request, body: { code: codeAt() } })
      await forgetLastCode(user)
      await forgetAuthentication(user)
      await service.expect('disableSecondFactor', 403, { ...request, body: { code: codeAt() } })
      await service.expect('reauthenticate', 204, { ...request, body: { code: codeAt() } })
      await forgetLastCode(user)
      await service.expect('disableSecondFactor', 204, { ...request, body: { code: codeAt() } })
    },
  )

  t.test('400: an account with a password proves itself by it', async (t) => {
    const ada = await service.register('has-password')
    const { body } = await service.expect('enrollSecondFactor', 400, { token: ada.token, body: {} })
    t.match(body.errors, [{ pointer: '/password' }])
  })

  t.test('undoing a change of the address gives it no password', async (t) => {
    const { access_token: own, user: changed } = await signIn('undone')
    const change = { params: { user_id: changed.id }, body: { email: 'elsewhere@example.org' } }
    await service.expect('updateUser', 200, { token: own, ...change })
    const undo = { token: service.emailChanges.at(-1)?.undoToken }
    await service.expect('undoEmailChange', 200, { body: undo })
    const [row] = await db.run('select password_hash from users where id = $1', [changed.id])
    t.equal(row?.password_hash, null)
    t.equal((await signIn('undone')).user.id, changed.id, 'and keeps the identity that it was created with')
  })

  t.test(
    'undoing a change of the address unlinks what a thief may have linked, and nothing else',
    async (t) => {
      for (const [name, age, kept] of [
        ['linked-before', '16 minutes', 1],
        ['linked-since', '14 minutes', 0],
      ] as const) {
        const owner = await service.register(name)
        await link(owner, `thief-of-${name}`)
        await db.run('update identities set created_at = created_at - $2::interval where user_id = $1', [
          owner.id,
          age,
        ])
        await db.run(`update users set created_at = now() - interval '1 day' where id = $1`, [owner.id])
        const change = { params: { user_id: owner.id }, body: { email: `thief-of-${name}@example.com` } }
        await service.expect('updateUser', 200, { token: owner.token, ...change })
        const undo = { token: service.emailChanges.at(-1)?.undoToken }
        await service.expect('undoEmailChange', 200, { body: undo })
        const left = await db.run('select from identities where user_id = $1', [owner.id])
        t.equal(left.length, kept, name)
      }
    },
  )

  t.test('an administrator can give it a password, which is then a way to sign in', async () => {
    const given = {
      token: admin.token,
      params: { user_id: user.id },
      body: { password, reset_second_factor: false },
    }
    await service.expect('setUserPassword', 204, given)
    await service.expect('login', 200, { body: { username: user.username, password } })
  })
})

t.test('OIDC_ONLY', async (t) => {
  const open = await startService(t, { config: { oidc: oidcConfig([providerOf(issuer)]) } })
  const boss = await open.register('boss')
  const ada = await open.register('ada')
  await open.expect('forgotPassword', 202, { body: { email: ada.email } })
  const reset = { token: open.mails.at(-1)?.token, new_password: 'a new password' }
  const only = await startService(t, {
    db: open.deps.db,
    config: { oidc: oidcConfig([providerOf(issuer)], { isOnly: true }) },
  })
  t.equal((await only.expect('listOidcProviders', 200)).body.password_sign_in, false)

  t.test('403: nobody registers, resets a password or sets one', async (t) => {
    const registration = { username: 'new', email: 'new@example.com', password: 'a good password' }
    const closed = [
      await only.expect('register', 403, { body: registration }),
      await only.expect('resetPassword', 403, { body: reset }),
      await only.expect('setUserPassword', 403, {
        token: boss.token,
        params: { user_id: ada.id },
        body: { password: 'a good password', reset_second_factor: false },
      }),
    ]
    for (const { body } of closed) t.equal(body.code, 'passwords_closed')
  })

  t.test('a password proves nothing, and does not count as a way to sign in', async (t) => {
    const { email, password, token } = ada
    await only.expect('login', 401, { body: { email, password } })
    await only.expect('reauthenticate', 409, { token, body: { password } })
    const mails = only.mails.length
    await only.expect('forgotPassword', 202, { body: { email } })
    t.equal(only.mails.length, mails)
    issuer.claims = { sub: 'ada' }
    const linking = { token, body: await browserAt(only).code('link') }
    const { id: identity_id } = (await only.expect('linkIdentity', 201, linking)).body
    await only.expect('unlinkIdentity', 409, { token, params: { identity_id } })
  })

  t.test('an account that an operator has named keeps its password', async () => {
    const { email, password, token } = boss
    await allowPassword(createContext(only.deps.db, shellPrincipal, localClient('test')), boss.id, true)
    await only.expect('login', 200, { body: { email, password } })
    await only.expect('reauthenticate', 204, { token, body: { password } })
    await allowPassword(createContext(only.deps.db, shellPrincipal, localClient('test')), boss.id, false)
    await only.expect('login', 401, { body: { email, password } })
  })
})
