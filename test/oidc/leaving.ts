import t from 'tap'
import { setTimeout as pause } from 'node:timers/promises'
import { claimWebhooks } from '../../src/db/activity/webhook-deliveries.ts'
import { accountActions } from '../fixture/accounts.ts'
import { eventually } from '../fixture/eventually.ts'
import { endedExport, finishedExport } from '../fixture/exports.ts'
import {
  browserAt,
  logoutClaims,
  oidcConfig,
  providerOf,
  returnTo,
  sendLogout,
  startIssuer,
} from '../fixture/issuer.ts'
import { startService } from '../fixture/service.ts'

/** How access ends for people who leave: by the provider's logout, by time, and by signing out. */

const [issuer, other] = [await startIssuer(), await startIssuer()]
issuer.metadata = { end_session_endpoint: `${issuer.url}/endsession` }
const providers = [providerOf(issuer), providerOf(other, { id: 'other' })]
const service = await startService(t, { config: { oidc: oidcConfig(providers) } })
const second = await startService(t, { db: service.deps.db, config: { oidc: oidcConfig(providers) } })
const { db } = service.deps
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)

const signIn = async (sub: string, sid?: string) => {
  issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, sid }
  const body = await browserAt(service).code()
  const { access_token: token, user } = (await service.expect('exchangeOidcCode', 200, { body })).body
  return { id: user.id, token }
}

const logoutToken = (
  claims: object,
  header: Record<string, unknown> = { typ: 'logout+jwt' },
  from = issuer,
) => from.sign(header, logoutClaims(issuer, { ...claims }))

const statusOf = async (token: string, at = service) => (await at.call('getCurrentUser', { token })).status

t.test('Back-Channel Logout', async (t) => {
  t.test('200: by sid, only the session of the provider; by sub, all of them', async (t) => {
    const sessions = [await signIn('ada', 's1'), await signIn('ada', 's2'), await signIn('grace', 's3')]
    const own = await service.expect('createApiToken', 201, {
      token: sessions[0]?.token,
      body: { name: 'kept', scopes: ['users:read'] },
    })
    const statuses = () => Promise.all(sessions.map(({ token }) => statusOf(token)))
    t.equal(await sendLogout(service, await logoutToken({ sid: 's1', sub: 'ada' })), 200)
    t.strictSame(await statuses(), [401, 200, 200])
    t.equal(await sendLogout(service, await logoutToken({ sid: 's1', sub: 'grace' })), 200, 'of nobody')
    t.equal(await sendLogout(service, await logoutToken({ sid: 'none' })), 200, 'of nobody')
    t.strictSame(await statuses(), [401, 200, 200])
    t.equal(
      await sendLogout(service, await logoutToken({ sub: 'ada' }, { typ: 'JWT' })),
      200,
      'an older provider',
    )
    t.strictSame(await statuses(), [401, 401, 200])
    t.equal(await statusOf(own.body.token), 200, 'an API token rests by itself')
  })

  t.test('sessions and streams end on another instance within 5 seconds', async (t) => {
    const { token } = await signIn('remote', 'r1')
    t.equal(await statusOf(token, second), 200)
    const stream = await fetch(`${second.url}/events/stream`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const ended = (async () => {
      for await (const _chunk of stream.body ?? []) continue
      return performance.now()
    })()
    const started = performance.now()
    t.equal(await sendLogout(service, await logoutToken({ sid: 'r1' })), 200)
    await eventually('the session ends', async () => (await statusOf(token, second)) === 401)
    t.ok(performance.now() - started < 5_500)
    t.ok((await Promise.race([ended, pause(20_000, Infinity, { ref: false })])) - started < 20_000)
  })

  t.test('200: a pending second factor is no way in', async (t) => {
    const ada = await service.register('pending')
    issuer.claims = { sub: 'pending', sid: 'p1' }
    const body = await browserAt(service).code('link')
    await service.expect('linkIdentity', 201, { token: ada.token, body })
    await db.run(
      `insert into one_time_tokens (hash, purpose, user_id, identity_id, sid, expires_at)
       select 'x', 'sign_in', user_id, id, 'p1', now() + interval '5 minutes' from identities where subject = 'pending'`,
      [],
    )
    t.equal(await sendLogout(service, await logoutToken({ sid: 'p1' })), 200)
    const rows = await db.run(`select from one_time_tokens where sid = 'p1'`, [])
    t.equal(rows.length, 0)
    t.equal(await statusOf(ada.token), 200, 'a session with the password is none of the provider')
  })

  t.test('200: by sid and sub, also the sessions and codes of the subject without a sid', async (t) => {
    const codeOf = async (sub: string, sid?: string) => {
      issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, sid }
      return browserAt(service).code()
    }
    const sessions = [await signIn('both'), await signIn('both', 'b1'), await signIn('both', 'b2')]
    const ended = [await codeOf('both', 'b1'), await codeOf('both')]
    const kept = [await codeOf('both', 'b2'), await codeOf('bystander')]
    t.equal(await sendLogout(service, await logoutToken({ sub: 'both', sid: 'b1' })), 200)
    t.strictSame(await Promise.all(sessions.map(({ token }) => statusOf(token))), [401, 401, 200])
    for (const body of ended) await service.expect('exchangeOidcCode', 401, { body })
    for (const body of kept) await service.expect('exchangeOidcCode', 200, { body })
    const bySid = await codeOf('both', 'b3')
    t.equal(await sendLogout(service, await logoutToken({ sid: 'b3' })), 200)
    await service.expect('exchangeOidcCode', 401, { body: bySid })
  })

  for (const [name, ended] of [
    ['sid', { sid: 'under-way' }],
    ['sub', { sub: 'by-sub' }],
    ['both', { sub: 'by-both', sid: 'under-way' }],
  ] as const)
    t.test(`200: by ${name}, a sign-in that waits for the user info`, async (t) => {
      const sub = `by-${name}`
      issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, sid: 'under-way' }
      const logout = await logoutToken(ended)
      issuer.intercept = (request, response) => {
        if (request.url !== '/userinfo') return false
        void (async () => {
          t.equal(await sendLogout(service, logout), 200)
          response.setHeader('content-type', 'application/json').end(JSON.stringify({ sub }))
        })()
        return true
      }
      const body = await browserAt(service).code()
      issuer.intercept = null
      await service.expect('exchangeOidcCode', 401, { body })
      t.equal(await statusOf((await signIn(sub, 'next')).token), 200, 'a later one is not ended')
    })

  t.test('a token whose request has failed is sent again', async (t) => {
    const { token } = await signIn('failing', 'f1')
    const logout = await logoutToken({ sid: 'f1' })
    await db.run(
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
      [],
    )
    await db.run('create trigger refuse before delete on sessions for each row execute function refuse()', [])
    t.equal(await sendLogout(service, logout), 500)
    await db.run('drop function refuse() cascade', [])
    t.equal(await statusOf(token), 200)
    t.equal(await sendLogout(service, logout), 200)
    t.equal(await statusOf(token), 401)
    t.equal(await sendLogout(service, logout), 400)
  })

  t.test('429: only what is refused counts', async (t) => {
    const limited = await startService(t, {
      db,
      config: { oidc: oidcConfig(providers), rateLimit: 'on', rateLimitAnonymous: 2 },
    })
    for (const sub of ['none', 'nobody', 'noone'])
      t.equal(await sendLogout(limited, await logoutToken({ sub })), 200)
    const statuses = [await sendLogout(limited, 'x'), await sendLogout(limited, 'x')]
    t.strictSame([...statuses, await sendLogout(limited, 'x')], [400, 400, 429])
    t.equal(await sendLogout(limited, await logoutToken({ sub: 'none' })), 200)
  })

  t.test('400: what is no logout token of this provider for this client, once', async (t) => {
    const { token } = await signIn('safe', 'safe')
    const now = Math.floor(Date.now() / 1_000)
    const refused: Readonly<Record<string, Promise<string>>> = {
      'of another client': logoutToken({ sub: 'safe', aud: 'another' }),
      'of another issuer': logoutToken({ sub: 'safe', iss: other.url }),
      'signed by another': logoutToken({ sub: 'safe' }, {}, other),
      'with a nonce, as an ID token': logoutToken({ sub: 'safe', nonce: 'x' }),
      'without events, as an ID token': logoutToken({ sub: 'safe', events: undefined }),
      'with another event': logoutToken({ sub: 'safe', events: { other: {} } }),
      'with another type': logoutToken({ sub: 'safe' }, { typ: 'at+jwt' }),
      expired: logoutToken({ sub: 'safe', iat: now - 600, exp: now - 300 }),
      'with an expiry that cannot be': logoutToken({ sub: 'safe', exp: 1e15 }),
      'with half a second in its expiry': logoutToken({ sub: 'safe', exp: now + 100.5 }),
      'from the future': logoutToken({ sub: 'safe', iat: now + 300, exp: now + 600 }),
      old: logoutToken({ sub: 'safe', iat: now - 3_600 }),
      'without jti': logoutToken({ sub: 'safe', jti: undefined }),
      'without iat': logoutToken({ sub: 'safe', iat: undefined }),
      'without exp': logoutToken({ sub: 'safe', exp: undefined }),
      'of nobody': logoutToken({}),
      unsigned: Promise.resolve(
        `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from(
          JSON.stringify(logoutClaims(issuer, { sub: 'safe' })),
        ).toString('base64url')}.`,
      ),
      'no token': Promise.resolve('x'),
    }
    for (const [name, signed] of Object.entries(refused))
      t.equal(await sendLogout(service, await signed), 400, name)
    t.equal(await statusOf(token), 200)
    const once = await logoutToken({ sub: 'somebody' })
    t.equal(await sendLogout(service, once), 200)
    t.equal(await sendLogout(second, once), 400, 'used, on another instance')
    t.equal(await sendLogout(service, await logoutToken({ sub: 'safe' }), { provider: 'none' }), 404)
    const json = await fetch(`${service.url}/auth/oidc/mock/backchannel-logout`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ logout_token: await logoutToken({ sub: 'safe' }) }),
    })
    t.equal(json.status, 415)
    const form = await fetch(`${service.url}/auth/login`, {
      method: 'POST',
      body: new URLSearchParams({ email: 'x' }),
    })
    t.equal(form.status, 415, 'forms are for this route only')
    t.equal(await statusOf(token), 200)
  })
})

t.test('logoutOidc', async (t) => {
  t.test('200: ends the session, and says where to sign out of the provider', async (t) => {
    const { token } = await signIn('signing-out')
    const { body } = await service.expect('logoutOidc', 200, { token, body: { return_to: returnTo } })
    const url = new URL(body.logout_url ?? '')
    t.equal(`${url.origin}${url.pathname}`, `${issuer.url}/endsession`)
    t.strictSame(Object.fromEntries(url.searchParams), {
      client_id: 'taskwright',
      post_logout_redirect_uri: returnTo,
    })
    t.equal(await statusOf(token), 401)
  })

  t.test('200: null for a session with a password', async (t) => {
    const { token } = await service.register('with-password')
    t.strictSame((await service.expect('logoutOidc', 200, { token })).body, { logout_url: null })
  })

  t.test('400: an address that is not allowed ends nothing', async (t) => {
    const { token } = await signIn('staying')
    await service.expect('logoutOidc', 400, { token, body: { return_to: 'https://evil.example/' } })
    t.equal(await statusOf(token), 200)
  })
})

t.test('an account without a sign-in for too long rests', async (t) => {
  const { id, token } = await signIn('away')
  const { token: apiToken } = await createApiToken({ token })
  const link = { token, body: { url: 'http://127.0.0.1:9/', event_types: ['task.created'] } }
  const { id: webhook_id } = (await service.expect('createWebhook', 201, link)).body
  t.equal((await service.call('listTasks', { token: apiToken })).status, 200)
  const { body: made } = await service.expect('createFeed', 201, { token, body: { name: 'A', kind: 'todo' } })
  const { searchParams } = new URL(made.calendar_url, service.url)
  const feed = { params: { feed_id: made.id }, query: Object.fromEntries(searchParams) }
  t.equal((await service.call('getFeedCalendar', feed)).status, 200)
  await db.run(`update users set sign_in_due_at = now() - interval '1 s' where id = $1`, [id])
  const fresh = await startService(t, { db, config: { oidc: oidcConfig(providers) } })
  const { body } = await fresh.expect('listTasks', 401, { token: apiToken })
  t.equal(body.code, 'sign_in_required')
  const stream = await fetch(`${fresh.url}/events/stream`, {
    headers: { authorization: `Bearer ${apiToken}` },
  })
  t.equal(stream.status, 401)
  t.equal((await service.call('getFeedCalendar', feed)).status, 404)
  const due = { prompt: 1, unproven: 1, slow: 1 }
  await service.expect('testWebhook', 201, { token, params: { webhook_id } })
  const lease = { id: '0199c0de-7a3c-7d5e-8f00-1d2c3b4a5968', duration: 1 }
  t.strictSame(await claimWebhooks(db, lease, due), [])
  const [pending] = await db.run(`select attempts from webhook_deliveries where webhook_id = $1`, [
    webhook_id,
  ])
  t.equal(pending?.attempts, 0, 'nothing is sent')

  t.test('until the next sign-in, with the same token', async (t) => {
    await signIn('away')
    t.equal((await fresh.call('listTasks', { token: apiToken })).status, 200)
    t.equal((await service.call('getFeedCalendar', feed)).status, 200)
  })

  t.test(
    'unlinking the identity does not end that, but a linked one that is not due asks for nothing',
    async (t) => {
      for (const [name, due, left] of [
        ['overdue', '-1 s', 1],
        ['in-time', '1 day', 0],
      ] as const) {
        const { token, id } = await service.register(name)
        issuer.claims = { sub: name }
        const linking = { token, body: await browserAt(service).code('link') }
        const { body: linked } = await service.expect('linkIdentity', 201, linking)
        await db.run('update users set sign_in_due_at = now() + $2::interval where id = $1', [id, due])
        await service.expect('unlinkIdentity', 204, { token, params: { identity_id: linked.id } })
        const rows = await db.run('select from users where id = $1 and sign_in_due_at is not null', [id])
        t.equal(rows.length, left, name)
      }
    },
  )

  t.test('an account that is linked with no provider never does', async (t) => {
    const { token } = await createApiToken(await service.register('plain'))
    const [row] = await db.run(`select sign_in_due_at from users where username = 'plain'`, [])
    t.equal(row?.sign_in_due_at, null)
    t.equal((await service.call('listTasks', { token })).status, 200)
  })
})

t.test('its exports are suspended, too', async (t) => {
  // Alone with its database: another instance would store the archives elsewhere.
  const alone = await startService(t, { config: { oidc: oidcConfig(providers) } })
  const ada = await alone.register('ada')
  const bob = await alone.register('bob')
  issuer.claims = { sub: 'exporter' }
  const linking = { token: ada.token, body: await browserAt(alone).code('link') }
  await alone.expect('linkIdentity', 201, linking)
  const made = await finishedExport(alone, ada)
  const download = { token: ada.token, params: { export_id: made.id } }
  await alone.expect('downloadExport', 200, download)
  await alone.deps.db.run(`update users set sign_in_due_at = now() - interval '1 s' where id = $1`, [ada.id])

  t.match(await endedExport(alone, ada), { status: 'failed', failure: 'sign_in_required', ended_at: /Z$/ })
  await finishedExport(alone, bob)
  const events = await alone.deps.db.run(
    `select after ->> 'status' as status from events where type = 'export.finished' and recipient_id = $1 order by ordinal`,
    [ada.id],
  )
  t.strictSame(
    events.map(({ status }) => status),
    ['finished', 'failed'],
  )
  const { body } = await alone.expect('downloadExport', 409, download)
  t.match(body, { code: 'export_without_file', detail: /Sign in with the identity provider/ })

  t.test('until the next sign-in, which brings the archive back', async (t) => {
    await alone.expect('exchangeOidcCode', 200, { body: await browserAt(alone).code() })
    await alone.expect('downloadExport', 200, download)
    t.match(await endedExport(alone, ada), { status: 'finished' })
  })
})
