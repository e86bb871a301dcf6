import t from 'tap'
import { localClient } from '../../src/domain/activity/audit.ts'
import { shellPrincipal } from '../../src/domain/shared/permissions.ts'
import { deriveKeys } from '../../src/auth/keys.ts'
import { openRequest, sealRequest } from '../../src/oidc/authorization-request.ts'
import { currentWork } from '../../src/concurrency/work.ts'
import type { Database } from '../../src/db/engine/client.ts'
import { DatabaseUnavailable, OutcomeUnknown } from '../../src/db/engine/errors.ts'
import { wrapRuns } from '../../src/db/engine/wrap-runs.ts'
import { createContext } from '../../src/services/shared/context.ts'
import { allowPassword, setPassword } from '../../src/services/accounts/passwords.ts'
import { accountActions, from } from '../fixture/accounts.ts'
import {
  browserAt,
  clientId,
  type Issuer,
  oidcConfig,
  providerOf,
  startIssuer,
  verifier,
} from '../fixture/issuer.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Service, startService } from '../fixture/service.ts'
import { secondFactorActions } from '../fixture/second-factor.ts'

/** Known ways to take over an account by OpenID Connect, each as a test that nobody gets in. */

const [issuer, other] = [await startIssuer(), await startIssuer()]
const providers = [providerOf(issuer, { linksByEmail: true }), providerOf(other, { id: 'other' })]
const service = await startService(t, { config: { oidc: oidcConfig(providers) } })
const { db } = service.deps
const admin = await service.register('admin')
const browser = browserAt(service)

type Claims = Readonly<Record<string, unknown>>

/** Signs in as whom the provider says. */
const signIn = async (claims: Claims, { at = service, from = issuer, provider = 'mock' } = {}) => {
  from.claims = claims
  return at.call('exchangeOidcCode', { body: await browserAt(at, provider).code() })
}

const codeOf = ({ body }: { readonly body: unknown }) => (body as { readonly code: string }).code
const userOf = ({ body }: { readonly body: unknown }) =>
  (body as { readonly user: { readonly id: string; readonly username: string; readonly role: string } }).user

const verified = (sub: string, email = `${sub}@example.com`): Claims => ({ sub, email, email_verified: true })

/** Sets a fault of the provider for the time of `work`. */
const withFault = async <T>(fault: Partial<Issuer>, work: () => Promise<T>): Promise<T> => {
  const before = {
    alterToken: issuer.alterToken,
    alterRedirect: issuer.alterRedirect,
    metadata: issuer.metadata,
  }
  Object.assign(issuer, fault)
  try {
    return await work()
  } finally {
    Object.assign(issuer, before)
  }
}

const countSessions = async (at: Service = service) =>
  Number((await at.deps.db.run('select count(*)::int as sessions from sessions', []))[0]?.sessions)

t.test('addresses', async (t) => {
  t.test('an address that is not verified takes over no account, and makes none', async (t) => {
    const ada = await service.register('ada')
    for (const email_verified of [false, undefined, 'true', 'false', 1, null, [true], {}]) {
      const claims = { sub: 'unverified', email_verified }
      t.equal(
        codeOf(await signIn({ ...claims, email: ada.email })),
        'email_taken',
        JSON.stringify(email_verified),
      )
      t.equal(codeOf(await signIn({ ...claims, email: 'new@example.com' })), 'email_unverified')
    }
    for (const email of [undefined, ['a@b.c']]) {
      const reply = await signIn({ sub: 'addressless', email_verified: true, email })
      t.match(reply, { status: 403, body: { code: 'email_missing', title: 'Email address missing' } })
    }
  })

  t.test('a verified address links only where an operator says so', async (t) => {
    const ada = await service.register('linked-by-address')
    const elsewhere = await signIn(verified('by-address', ada.email), { from: other, provider: 'other' })
    t.equal(codeOf(elsewhere), 'email_taken')
    t.equal(userOf(await signIn(verified('by-address', 'LINKED-BY-ADDRESS@example.com'))).id, ada.id)
  })

  t.test('an account that somebody registered with the address of the victim keeps no way in', async (t) => {
    const attacker = await service.register('prepared')
    const { token } = attacker
    const apiToken = (
      await service.expect('createApiToken', 201, { token, body: { name: 'kept', scopes: ['tasks:read'] } })
    ).body.token
    const webhook = { url: 'http://127.0.0.1:9/', event_types: ['*'] }
    await service.expect('createWebhook', 201, { token, body: webhook })
    await service.expect('forgotPassword', 202, { body: { email: attacker.email } })
    const reset = service.mails.at(-1)?.token
    const victim = await signIn(verified('victim', attacker.email))
    t.equal(userOf(victim).id, attacker.id)
    const refused = [
      await service.call('getCurrentUser', { token }),
      await service.call('listTasks', { token: apiToken }),
      await service.call('refreshToken', { body: { refresh_token: attacker.refreshToken } }),
      await service.call('login', { body: { email: attacker.email, password: attacker.password } }),
      await service.call('resetPassword', { body: { token: reset, new_password: 'taken over' } }),
    ]
    t.strictSame(
      refused.map(({ status }) => status),
      [401, 401, 401, 401, 401],
    )
    const [kept] = await db.run('select is_enabled from webhooks where owner_id = $1', [attacker.id])
    t.equal(kept?.is_enabled, false)
  })

  t.test('an address takes over no account that signs in with an identity already', async (t) => {
    const owner = userOf(await signIn(verified('owner')))
    t.equal(codeOf(await signIn(verified('next-with-the-address', 'owner@example.com'))), 'email_taken')
    t.equal(userOf(await signIn(verified('owner'))).id, owner.id)
    const { token, email } = await service.register('linked-elsewhere')
    other.claims = verified('elsewhere', 'elsewhere@example.org')
    const linking = await browserAt(service, 'other').code('link')
    await service.expect('linkIdentity', 201, { token, body: linking })
    t.equal(codeOf(await signIn(verified('linked-elsewhere', email))), 'email_taken')
    await service.expect('getCurrentUser', 200, { token })
  })

  t.test('nor calendar feeds and exports', async (t) => {
    const { token, email, id } = await service.register('subscribed')
    const body = { name: 'Kept', kind: 'todo' }
    const feed = (await service.expect('createFeed', 201, { token, body })).body
    const { searchParams } = new URL(feed.calendar_url, service.url)
    await service.expect('createExport', 201, { token, body: {} })
    t.equal(userOf(await signIn(verified('subscriber', email))).id, id)
    const link = { params: { feed_id: feed.id }, query: Object.fromEntries(searchParams) }
    t.equal((await service.call('getFeedCalendar', link)).status, 410)
    t.equal((await db.run('select from exports where requested_by = $1', [id])).length, 0)
  })

  t.test('an address makes nobody an administrator', async (t) => {
    t.equal(codeOf(await signIn(verified('boss', admin.email))), 'email_taken')
    const empty = await startService(t, { config: { oidc: oidcConfig(providers.slice(0, 1)) } })
    t.equal(
      userOf(await signIn({ ...verified('first'), role: 'admin', groups: ['admin'] }, { at: empty })).role,
      'member',
    )
    t.equal((await empty.register('next')).user.role, 'member', 'nor the next account to register')
  })
})

t.test('recovery', async (t) => {
  const { auditOf } = accountActions(service, admin)
  const newPassword = 'staple the battery'

  /** An account with identities of both providers that an attacker has linked, and an exchange that the attacker has begun. */
  const attacked = async (name: string) => {
    const victim = await service.register(name)
    const { token, id } = victim
    issuer.claims = verified(`thief-of-${name}`)
    other.claims = verified(`thief-of-${name}`, `thief-of-${name}@example.org`)
    for (const body of [await browser.code('link'), await browserAt(service, 'other').code('link')])
      await service.expect('linkIdentity', 201, { token, body })
    const stolen = await signIn(verified(`thief-of-${name}`))
    t.equal(userOf(stolen).id, id)
    return { victim, stolenToken: tokenOf(stolen), pending: await browser.code() }
  }
  const tokenOf = ({ body }: { readonly body: unknown }) =>
    (body as { readonly access_token: string }).access_token

  /** Checks that nothing of the attacker is left, and that the user is told. */
  const isRecovered = async (
    { victim, stolenToken, pending }: Awaited<ReturnType<typeof attacked>>,
    actorId: string,
  ) => {
    const { id, email, user } = victim
    const thief = `thief-of-${user.username}`
    await service.expect('getCurrentUser', 401, { token: stolenToken })
    const [exchanged, again, elsewhere] = [
      await service.call('exchangeOidcCode', { body: pending }),
      await signIn(verified(thief)),
      await signIn(verified(thief, `${thief}@example.org`), { from: other, provider: 'other' }),
    ]
    for (const reply of [exchanged, again, elsewhere]) {
      t.equal(reply.status, 200)
      t.not(userOf(reply).id, id)
    }
    await service.expect('login', 200, { body: { email, password: newPassword } })
    const events = (await auditOf(victim)).filter(({ action }) => action === 'identity.unlinked')
    t.strictSame(
      events.map(({ actor_id, user_id }) => [actor_id, user_id]),
      [
        [actorId, id],
        [actorId, id],
      ],
    )
    t.strictSame(
      service.identitiesUnlinked.filter(({ to }) => to === email),
      [{ to: email }],
    )
    const [row] = await db.run('select sign_in_due_at from users where id = $1', [id])
    t.equal(row?.sign_in_due_at, null)
  }

  t.test('a password reset unlinks the identities', async () => {
    const attack = await attacked('resetting')
    await service.expect('forgotPassword', 202, { body: { email: attack.victim.email } })
    const { token } = service.mails.at(-1) ?? {}
    await service.expect('resetPassword', 204, { body: { token, new_password: newPassword } })
    await isRecovered(attack, attack.victim.id)
  })

  t.test('a password that an administrator sets does, too', async () => {
    const attack = await attacked('helped')
    await service.expect('setUserPassword', 204, {
      token: admin.token,
      params: { user_id: attack.victim.id },
      body: { password: newPassword },
    })
    await isRecovered(attack, admin.id)
  })

  t.test('the teams of their groups go with them', async (t) => {
    const { id: team } = await projectActions(service).createTeam(admin, 'Everybody')
    const rules = [{ claim: 'groups', value: 'all', team, role: 'member' as const }]
    const ruled = await startService(t, {
      db,
      config: { oidc: oidcConfig([providerOf(issuer, { teams: rules })]) },
    })
    const { id } = userOf(await signIn({ ...verified('grouped'), groups: ['all'] }, { at: ruled }))
    const countTeams = async () =>
      (await db.run('select from team_members where user_id = $1 and team_id = $2', [id, team])).length
    t.equal(await countTeams(), 1)
    await ruled.expect('setUserPassword', 204, {
      token: admin.token,
      params: { user_id: id },
      body: { password: newPassword },
    })
    t.equal(await countTeams(), 0)
  })

  t.test('nobody is told of identities that there are not', async (t) => {
    const { email } = await service.register('unlinked')
    await service.expect('forgotPassword', 202, { body: { email } })
    const { token } = service.mails.at(-1) ?? {}
    await service.expect('resetPassword', 204, { body: { token, new_password: newPassword } })
    t.notOk(service.identitiesUnlinked.some(({ to }) => to === email))
  })

  t.test('with OIDC_ONLY, only an account that may use its password loses them', async (t) => {
    const config = { oidc: oidcConfig(providers, { isOnly: true }) }
    const only = await startService(t, { db, config })
    const shell = createContext(db, shellPrincipal, localClient('test'))
    for (const [name, isAllowed, left] of [
      ['bound', false, 1],
      ['exempted', true, 0],
    ] as const) {
      const { id } = userOf(await signIn(verified(name), { at: only }))
      await allowPassword(shell, id, isAllowed)
      const newHash = await only.deps.passwords.hash(newPassword)
      const { issuers } = await setPassword(shell, {
        userId: id,
        newHash,
        resetsSecondFactor: false,
        isOnly: true,
      })
      t.equal(issuers.length, 1 - left, name)
      t.equal((await db.run('select from identities where user_id = $1', [id])).length, left, name)
    }
  })
})

t.test('names', async (t) => {
  t.test('a changed name, username or address stays with its subject', async (t) => {
    const first = userOf(await signIn(verified('stable')))
    const changed = { ...verified('stable', admin.email), preferred_username: 'admin', name: 'admin' }
    t.equal(userOf(await signIn(changed)).id, first.id)
    t.equal(userOf(await signIn({ sub: 'stable' })).id, first.id)
    const { username } = userOf(await signIn({ ...verified('namesake'), preferred_username: 'admin' }))
    t.match(username, /^admin-[0-9]{5}$/)
  })

  t.test('the same subject of another issuer is somebody else', async (t) => {
    const first = userOf(await signIn(verified('twin')))
    const at = { from: other, provider: 'other' }
    t.equal(codeOf(await signIn(verified('twin'), at)), 'email_taken')
    t.not(userOf(await signIn(verified('twin', 'twin@example.org'), at)).id, first.id)
  })

  t.test('an identity of one account does not move to another', async (t) => {
    const [ada, grace] = [await service.register('first-owner'), await service.register('second-owner')]
    issuer.claims = verified('moved')
    const link = async ({ token }: Account) =>
      service.call('linkIdentity', { token, body: await browser.code('link') })
    t.equal((await link(ada)).status, 201)
    t.equal(codeOf(await link(grace)), 'identity_taken')
    t.equal(userOf(await signIn(verified('moved'))).id, ada.id)
  })
})

t.test('codes of this service', async (t) => {
  issuer.claims = verified('coded')
  const refusals = async (body: object) => {
    const before = await countSessions()
    t.match(await service.call('exchangeOidcCode', { body }), {
      status: 401,
      body: { code: 'invalid_credentials' },
    })
    t.equal(await countSessions(), before)
  }
  const first = await browser.code()
  await refusals({ ...first, code_verifier: 'w'.repeat(43) })
  await refusals(first)
  const late = await browser.code()
  await db.run(`update oidc_codes set expires_at = expires_at - interval '61 s'`, [])
  await refusals(late)
  const [row] = await db.run('select count(*)::int as codes from oidc_codes', [])
  t.equal(row?.codes, 0, 'each attempt uses the code up')
  await service.expect('exchangeOidcCode', 400, { body: { code: first.code } })
  const [stored] = await (async () => {
    const kept = await browser.code()
    const rows = await db.run('select oidc_codes::text as text from oidc_codes', [])
    return rows.map(({ text }) => `${String(text)} ${kept.code}`)
  })()
  t.notMatch(stored, /coded@example/)
})

t.test('a sign-in that fails leaves nothing, and one that is refused is told so', async (t) => {
  /** A service whose database fails when `fails` says so of a statement. */
  const failing = (fails: (statement: string) => boolean) => {
    const db = wrapRuns(service.deps.db, (run) => (text, ...rest) => {
      const [, statement = ''] = /\/\* (\S+) \*\//.exec(text) ?? []
      return fails(statement) ? Promise.reject(new DatabaseUnavailable()) : run(text, ...rest)
    })
    return startService(t, { db, config: { oidc: oidcConfig(providers) } })
  }
  const withoutSessions = await failing((statement) => statement === 'refresh_tokens.insert')

  await t.test('no account of a first one, whose invitation and code can be used', async (t) => {
    const { createProject } = projectActions(service)
    const { id } = await createProject(admin, 'Shared')
    const invitation = { email: 'unlucky@example.com', role: 'editor' }
    const inviting = { token: admin.token, params: { project_id: id }, body: invitation }
    await service.expect('createInvitation', 201, inviting)
    issuer.claims = verified('unlucky')
    const body = await browser.code('sign_in', { invitation_token: service.invitations.at(-1)?.token })
    await withoutSessions.expect('exchangeOidcCode', 503, { body })
    t.strictSame([...(await db.run(`select from users where email = 'unlucky@example.com'`, []))], [])
    const { access_token: token } = (await service.expect('exchangeOidcCode', 200, { body })).body
    await service.expect('getProject', 200, { token, params: { project_id: id } })
  })

  await t.test('no link to an account with the address, which keeps its access', async (t) => {
    const { id, token, email } = await service.register('spared')
    issuer.claims = verified('sparing', email)
    const body = await browser.code()
    await withoutSessions.expect('exchangeOidcCode', 503, { body })
    await service.expect('getCurrentUser', 200, { token })
    t.equal(userOf(await service.expect('exchangeOidcCode', 200, { body })).id, id)
    await service.expect('getCurrentUser', 401, { token })
  })

  await t.test('a code is used up where a constraint refuses the sign-in', async () => {
    const email = 'meanwhile@example.com'
    let hasRegistered = false
    const db = wrapRuns(service.deps.db, (run) => async (text, ...rest) => {
      const rows = await run(text, ...rest)
      if (text.includes('/* users.select_by_email */') && !hasRegistered) {
        hasRegistered = true
        await service.register('meanwhile')
      }
      return rows
    })
    const overtaken = await startService(t, { db, config: { oidc: oidcConfig(providers) } })
    other.claims = verified('overtaken', email)
    const body = await browserAt(overtaken, 'other').code()
    t.match(await overtaken.expect('exchangeOidcCode', 409, { body }), { body: { code: 'email_taken' } })
    t.ok(hasRegistered)
    await service.expect('exchangeOidcCode', 401, { body })
  })

  await t.test('a code works after a commit without an answer, unless that has used it up', async () => {
    const { db } = service.deps
    const unanswered = async (commits: boolean) => {
      const transaction: Database['transaction'] = async (body, actor) => {
        if (commits) await db.transaction(body, actor)
        currentWork().sent.push('commit')
        throw new OutcomeUnknown()
      }
      const at = await startService(t, {
        db: { ...db, transaction },
        backgroundDb: db,
        config: { oidc: oidcConfig(providers) },
      })
      issuer.claims = verified('unanswered')
      const body = await browser.code()
      await at.expect('exchangeOidcCode', 504, { body })
      return body
    }
    await service.expect('exchangeOidcCode', 200, { body: await unanswered(false) })
    await service.expect('exchangeOidcCode', 401, { body: await unanswered(true) })
  })

  await t.test('a refusal whose code cannot be used up is the answer', async () => {
    const { id } = userOf(await signIn(verified('refused')))
    const disabling = { token: admin.token, params: { user_id: id }, body: { is_disabled: true } }
    await service.expect('updateUser', 200, disabling)
    let taken = 0
    const failsAfterwards = await failing((statement) => statement === 'oidc_codes.take' && (taken += 1) > 1)
    await failsAfterwards.expect('exchangeOidcCode', 403, { body: await browser.code() })
    await failsAfterwards.expect('exchangeOidcCode', 401, {
      body: { ...(await browser.code()), code_verifier: 'w'.repeat(43) },
    })
  })
})

t.test('answers of a provider', async (t) => {
  /** What the program learns when the browser comes back with an altered answer. */
  const outcome = async (alter: (callback: URL) => void, provider = 'mock') => {
    const callback = new URL(await browser.authenticate(await browser.begin()))
    alter(callback)
    callback.pathname = callback.pathname.replace('/mock/', `/${provider}/`)
    const response = await fetch(callback, { redirect: 'manual' })
    if (response.status !== 302) return response.status
    const { searchParams } = new URL(response.headers.get('location') ?? '')
    return searchParams.has('code') ? 'code' : searchParams.get('error')
  }
  issuer.claims = verified('answered')

  t.equal(await outcome(() => undefined), 'code')
  t.equal(await outcome((url) => url.searchParams.delete('state')), 400)
  t.equal(await outcome((url) => url.searchParams.set('state', 'x')), 400)
  t.equal(await outcome((url) => url.searchParams.append('state', 'x')), 'server_error', 'a second state')
  t.equal(await outcome((url) => url.searchParams.set('code', 'x')), 'server_error', 'a code of nobody')
  t.equal(await outcome((url) => url.searchParams.delete('code')), 'server_error')
  t.equal(await outcome(() => undefined, 'other'), 400, 'the state of another provider')
  t.equal(await outcome(() => undefined, 'none'), 404)

  t.test('a code of the provider works once, and only in its own request', async (t) => {
    const callback = await browser.authenticate(await browser.begin())
    t.ok((await browser.comeBack(callback)).has('code'))
    t.equal((await browser.comeBack(callback)).get('error'), 'server_error', 'replayed')
    const [victim, attacker] = [
      new URL(await browser.authenticate(await browser.begin())),
      new URL(await browser.authenticate(await browser.begin())),
    ]
    attacker.searchParams.set('code', victim.searchParams.get('code') ?? '')
    t.equal((await browser.comeBack(attacker.href)).get('error'), 'server_error', 'injected')
  })

  t.test('a browser that was lent a request cannot use its code', async () => {
    // The attacker began the request, and the victim authenticates. The program of the victim has another verifier.
    const { code } = await browser.code()
    await service.expect('exchangeOidcCode', 401, { body: { code, code_verifier: 'victim'.padEnd(43, 'x') } })
  })

  t.test('a request that is older than 10 minutes', async (t) => {
    const callback = new URL(await browser.authenticate(await browser.begin()))
    const keys = deriveKeys(service.deps.secrets, 'oidc')
    const request = openRequest(keys, callback.searchParams.get('state') ?? '')
    if (request === null) throw new Error('The state is not sealed')
    callback.searchParams.set('state', sealRequest(keys, { ...request, expiresAt: Date.now() - 60_000 }))
    const parameters = await browser.comeBack(callback.href)
    t.equal(parameters.get('error'), 'invalid_request')
    t.notOk(parameters.has('code'))
  })

  t.test('an address to return to that is allowed no more', async (t) => {
    const callback = await browser.authenticate(await browser.begin())
    const moved = await startService(t, {
      config: { oidc: oidcConfig(providers.slice(0, 1), { returnTo: ['https://elsewhere.example/'] }) },
    })
    const response = await fetch(callback.replace(service.url, moved.url), { redirect: 'manual' })
    t.equal(response.status, 400)
  })

  t.test('an issuer that is missing where it was advertised, or is another', async (t) => {
    const mixed = await startIssuer()
    mixed.metadata = { authorization_response_iss_parameter_supported: true }
    const fresh = await startService(t, { config: { oidc: oidcConfig([providerOf(mixed)]) } })
    t.equal((await browserAt(fresh).answer()).get('error'), 'server_error')
    mixed.alterRedirect = (url) => url.searchParams.set('iss', issuer.url)
    t.equal((await browserAt(fresh).answer()).get('error'), 'server_error')
    mixed.alterRedirect = (url) => url.searchParams.set('iss', mixed.url)
    t.ok((await browserAt(fresh).answer()).has('code'))
  })
})

t.test('made-up codes do not make the provider lock the client', async (t) => {
  const provider = await startIssuer()
  provider.claims = verified('made-up')
  const asked = () => provider.requests.filter((path) => path === '/token').length
  const at = await startService(t, {
    db,
    config: { oidc: oidcConfig([providerOf(provider)]), trustProxy: ['127.0.0.1'] },
  })
  const { begin, authenticate } = browserAt(at)
  /** Where the provider sends the browser, with another code, or with an error in place of it. */
  const callbackWith = async (query: Readonly<Record<string, string>>): Promise<URL> => {
    const callback = new URL(await authenticate(await begin()))
    if (query.error !== undefined) callback.searchParams.delete('code')
    for (const [name, value] of Object.entries(query)) callback.searchParams.set(name, value)
    return callback
  }
  /** What the program learns. */
  const send = async (address: string, callback: URL): Promise<URLSearchParams> => {
    const response = await fetch(callback, { redirect: 'manual', headers: from(address) })
    return new URL(response.headers.get('location') ?? '').searchParams
  }
  const comeBack = async (address: string, query: Readonly<Record<string, string>> = {}) =>
    send(address, await callbackWith(query))
  const rejectCodes: NonNullable<typeof provider.intercept> = ({ url }, response) => {
    if (url !== '/token') return false
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}')
    return true
  }
  const lapse = () => db.run(`update attempts set delayed_until = now() - interval '1 ms'`, [])
  await db.run('delete from attempts', [])

  await t.test('however many come at once', async (t) => {
    provider.intercept = rejectCodes
    const before = asked()
    const callbacks = await Promise.all(Array.from({ length: 25 }, () => callbackWith({ code: 'x' })))
    const answers = await Promise.all(callbacks.map((callback) => send('192.0.2.1', callback)))
    t.equal(asked() - before, 10)
    t.equal(answers.filter((answer) => answer.get('error') === 'server_error').length, 10)
    const refused = answers.find((answer) => answer.get('error') === 'temporarily_unavailable')
    t.match(refused?.get('error_description'), /^Too many sign-ins .* Try again in [1-9] seconds\.$/)
    const failures = await db.run(
      `select from audit_events where action = 'sign_in.failed' and address = '192.0.2.1'`,
      [],
    )
    t.equal(failures.length, 10)
  })

  await t.test('the delay grows, whatever comes without a code in between', async (t) => {
    for (const delay of [10, 20]) {
      await lapse()
      await comeBack('192.0.2.1', { code: 'x' })
      await comeBack('192.0.2.1', { error: 'access_denied' })
      const [row] = await db.run(
        'select extract(epoch from delayed_until - last_failed_at)::int as delay from attempts',
        [],
      )
      t.equal(row?.delay, delay)
    }
    provider.intercept = null
  })

  await t.test('other networks sign in, and so does this one after the delay, which ends it', async (t) => {
    t.ok((await comeBack('198.51.100.1')).has('code'))
    await lapse()
    t.ok((await comeBack('192.0.2.1')).has('code'))
    provider.intercept = rejectCodes
    t.equal((await comeBack('192.0.2.1', { code: 'x' })).get('error'), 'server_error')
    provider.intercept = null
    t.ok((await comeBack('192.0.2.1')).has('code'))
  })

  await t.test('an outage counts for nothing', async (t) => {
    provider.intercept = ({ url }, response) => url === '/token' && Boolean(response.writeHead(503).end())
    for (let sent = 0; sent < 12; sent += 1) await comeBack('192.0.2.1')
    provider.intercept = null
    t.ok((await comeBack('192.0.2.1')).has('code'))
  })
})

t.test('ID tokens', async (t) => {
  issuer.claims = verified('tokens')
  const now = Math.floor(Date.now() / 1_000)
  const forged: Readonly<
    Record<string, (token: { header: Claims; payload: Record<string, unknown> }) => void>
  > = {
    'another audience': ({ payload }) => (payload.aud = 'another-client'),
    'another authorized party': ({ payload }) => (payload.azp = 'another-client'),
    'several audiences without azp': ({ payload }) => (payload.aud = [clientId, 'another-client']),
    'another issuer': ({ payload }) => (payload.iss = other.url),
    'another nonce': ({ payload }) => (payload.nonce = 'x'),
    'no nonce': ({ payload }) => delete payload.nonce,
    'no subject': ({ payload }) => delete payload.sub,
    'an empty subject': ({ payload }) => (payload.sub = ''),
    'a subject that is no text': ({ payload }) => (payload.sub = 7),
    expired: ({ payload }) => Object.assign(payload, { iat: now - 600, exp: now - 300 }),
    'from the future': ({ payload }) => Object.assign(payload, { nbf: now + 300 }),
    'no expiry': ({ payload }) => delete payload.exp,
    'a logout token': (token) => {
      Object.assign(token.header, { typ: 'logout+jwt' })
      token.payload.events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
      delete token.payload.nonce
    },
  }
  for (const [name, alterToken] of Object.entries(forged)) {
    const parameters = await withFault({ alterToken }, () => browser.answer())
    t.equal(parameters.get('error'), 'server_error', name)
  }

  t.test('without a signature, or with that of somebody else', async (t) => {
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.`
    const tokens: Readonly<Record<string, (nonce: string) => Promise<string>>> = {
      none: async (nonce) => `${unsigned}${payloadOf(nonce)}.`,
      other: (nonce) => other.sign({}, claimsOf(nonce)),
    }
    for (const [name, sign] of Object.entries(tokens)) {
      const url = await browser.begin()
      const nonce = new URL(url).searchParams.get('nonce') ?? ''
      const token = await sign(nonce)
      issuer.intercept = (request, response) => {
        if (request.url !== '/token') return false
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ access_token: 'x', token_type: 'Bearer', id_token: token }))
        return true
      }
      const parameters = await browser.comeBack(await browser.authenticate(url))
      issuer.intercept = null
      t.equal(parameters.get('error'), 'server_error', name)
    }
  })
  const claimsOf = (nonce: string) => ({
    iss: issuer.url,
    sub: 'x',
    aud: clientId,
    nonce,
    iat: now,
    exp: now + 600,
  })
  const payloadOf = (nonce: string) => Buffer.from(JSON.stringify(claimsOf(nonce))).toString('base64url')

  t.test('the user info of somebody else', async (t) => {
    issuer.claims = { sub: 'myself' }
    issuer.userInfo = { ...verified('victim') }
    t.equal((await browser.answer()).get('error'), 'server_error')
    issuer.userInfo = {}
  })

  t.test('an access token of this service is no code, and a code no token', async () => {
    issuer.claims = verified('tokens')
    const { code } = await browser.code()
    await service.expect('getCurrentUser', 401, { token: code })
    await service.expect('exchangeOidcCode', 401, { body: { code: admin.token, code_verifier: verifier } })
  })
})

t.test('users who are no more', async (t) => {
  t.test('a disabled user', async (t) => {
    const { id } = userOf(await signIn(verified('disabled')))
    await service.expect('updateUser', 200, {
      token: admin.token,
      params: { user_id: id },
      body: { is_disabled: true },
    })
    t.equal(codeOf(await signIn(verified('disabled'))), 'account_disabled')
  })

  t.test('a deleted user gets a new account, with nothing of the old one', async (t) => {
    const { id } = userOf(await signIn(verified('deleted')))
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: id } })
    t.not(userOf(await signIn(verified('deleted'))).id, id)
  })

  t.test('a user who is deleted between the provider and the exchange', async () => {
    const { id } = userOf(await signIn(verified('hasty')))
    const body = await browser.code()
    await db.run(`update users set deleted_at = now() where id = $1`, [id])
    await service.expect('exchangeOidcCode', 409, { body })
  })
})

t.test('who may have an account', async (t) => {
  const cases = [
    ['never', verified('a'), 'registration_closed'],
    ['invited', verified('a'), 'registration_closed'],
    ['always', { sub: 'a', email: 'a@example.com' }, 'email_unverified'],
  ] as const
  for (const [create, claims, code] of cases) {
    const strict = await startService(t, { config: { oidc: oidcConfig(providers.slice(0, 1), { create }) } })
    t.equal(codeOf(await signIn(claims, { at: strict })), code, create)
    const ada = await strict.register('ada')
    issuer.claims = claims
    const linking = { token: ada.token, body: await browserAt(strict).code('link') }
    await strict.expect('linkIdentity', 201, linking)
    t.equal(userOf(await signIn(claims, { at: strict })).id, ada.id, 'who has linked signs in')
  }

  t.test('a provider that is trusted with addresses', async (t) => {
    const trusting = await startService(t, {
      config: { oidc: oidcConfig([providerOf(issuer, { trustsEmail: true })]) },
    })
    const claims = { sub: 'trusted', email: 'trusted@example.com' }
    t.equal(userOf(await signIn(claims, { at: trusting })).username, 'trusted')
    const ada = await trusting.register('ada')
    t.equal(codeOf(await signIn({ sub: 'x', email: ada.email }, { at: trusting })), 'email_taken')
  })
})

t.test(
  'the second factor of the account is asked unless the provider has asked for one that counts',
  async (t) => {
    const secondFactor = { amr: ['otp', 'mfa'], acr: ['https://refeds.org/profile/mfa'] }
    const guarded = await startService(t, {
      config: { oidc: oidcConfig([providerOf(issuer, { secondFactor, linksByEmail: true })]) },
    })
    const ada = await secondFactorActions(guarded).registerGuarded('ada')
    issuer.claims = { sub: 'ada' }
    const linking = { token: ada.token, body: await browserAt(guarded).code('link') }
    await guarded.expect('linkIdentity', 201, linking)
    const cases: readonly (readonly [Claims, number])[] = [
      [{}, 401],
      [{ amr: ['pwd'] }, 401],
      [{ amr: 'otp' }, 401],
      [{ acr: '1' }, 401],
      [{ amr: ['pwd', 'otp'] }, 200],
      [{ acr: 'https://refeds.org/profile/mfa' }, 200],
    ]
    for (const [claims, status] of cases)
      t.equal(
        (await signIn({ sub: 'ada', ...claims }, { at: guarded })).status,
        status,
        JSON.stringify(claims),
      )
    const grace = await secondFactorActions(guarded).registerGuarded('grace')
    const byAddress = verified('grace', grace.email)
    t.equal(
      codeOf(await signIn(byAddress, { at: guarded })),
      'email_taken',
      'before an account is taken over',
    )
    await guarded.expect('getCurrentUser', 200, { token: grace.token })
    t.equal(userOf(await signIn({ ...byAddress, amr: ['otp'] }, { at: guarded })).id, grace.id)
  },
)
