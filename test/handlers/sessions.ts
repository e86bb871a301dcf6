import t from 'tap'
import { accountActions, from, sessionIdOf, startBeside, withoutIds } from '../fixture/accounts.ts'
import { head, sendRaw } from '../fixture/raw.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, unknownId } from '../fixture/tasks.ts'

const service = await startService(t, { config: { trustProxy: ['127.0.0.1'] } })
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, refreshStatusOf, signIn, statusOf } = accountActions(service, admin)

const listSessions = async ({ token }: Pick<Account, 'token'>) =>
  (await service.expect('listSessions', 200, { token })).body.items

t.test('listSessions', async (t) => {
  t.test('200: times, user agent and address of each session, newest first', async (t) => {
    const account = await service.register('traveller')
    const phone = await signIn(account, { 'user-agent': 'Phone/1.0 (\u00fc)', ...from('2001:db8::17') })
    const { body, headers } = await service.expect('listSessions', 200, { token: account.token })
    t.match(body, { next_cursor: null, prev_cursor: null, total: null })
    t.match(headers.get('link'), /^<\/auth\/sessions\?limit=50>; rel="first"$/)
    t.equal(headers.get('cache-control'), 'private, no-cache')
    const times = body.items.map((session) => ({
      created: Math.abs(Date.parse(session.created_at) - Date.now()) < 60_000,
      used: Math.abs(Date.parse(session.last_used_at) - Date.now()) < 60_000,
      lives: Date.parse(session.expires_at) - Date.parse(session.created_at),
    }))
    const month = { created: true, used: true, lives: 30 * 86_400_000 }
    t.strictSame(times, [month, month])
    t.strictSame(
      body.items.map(({ id, user_agent, address, is_current }) => ({ id, user_agent, address, is_current })),
      [
        {
          id: sessionIdOf(phone.access_token),
          user_agent: 'Phone/1.0 (\u00fc)',
          address: '2001:db8::17',
          is_current: false,
        },
        { id: sessionIdOf(account.token), user_agent: 'node', address: '127.0.0.1', is_current: true },
      ],
    )
    const [current] = await listSessions({ token: phone.access_token })
    t.match(current, { id: sessionIdOf(phone.access_token), is_current: true })
  })

  t.test('200: user_agent is null without the header, and truncated to 512 characters', async (t) => {
    const account = await service.register('nameless')
    const body = JSON.stringify({ email: account.email, password: account.password })
    const length = `Content-Length: ${Buffer.byteLength(body)}`
    const lines = ['POST /auth/login HTTP/1.1', 'Host: x', 'Content-Type: application/json', length]
    t.equal((await sendRaw(t, service.url, head(...lines) + body)).status, 200)
    await signIn(account, { 'user-agent': 'x'.repeat(513) })
    const agents = (await listSessions(account)).map(({ user_agent }) => user_agent)
    t.strictSame(agents, ['x'.repeat(512), null, 'node'])
  })

  t.test('200: a refresh updates the user agent, the address and last_used_at', async (t) => {
    const account = await service.register('moving')
    await db.run(`update sessions set last_used_at = now() - interval '50 seconds' where user_id = $1`, [
      account.id,
    ])
    const [before] = await listSessions(account)
    await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
      headers: { 'user-agent': 'Later/2.0', ...from('198.51.100.7') },
    })
    const [after, ...others] = await listSessions(account)
    t.strictSame(others, [])
    t.match(after, { id: before?.id, user_agent: 'Later/2.0', address: '198.51.100.7', is_current: true })
    t.match(after, { created_at: before?.created_at, expires_at: before?.expires_at })
    t.ok(Date.parse(after?.last_used_at ?? '') - Date.parse(before?.last_used_at ?? '') >= 50_000)
  })

  t.test('200: last_used_at is updated at most once a minute', async (t) => {
    const account = await service.register('regular')
    for (const { seconds, moves } of [
      { seconds: 40, moves: false },
      { seconds: 61, moves: true },
      // Before the clock was set back.
      { seconds: -3_600, moves: true },
    ]) {
      const [row] = await db.run(
        `update sessions set last_used_at = now() - $2::int * interval '1 second' where user_id = $1
         returning to_char(last_used_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as moved`,
        [account.id, seconds],
      )
      const fresh = await startBeside(t, service)
      const { body } = await fresh.expect('listSessions', 200, { token: account.token })
      t.equal(body.items[0]?.last_used_at !== row?.moved, moves, `after ${seconds} seconds`)
    }
  })

  t.test('200: excludes sessions that have expired or signed out', async (t) => {
    const account = await service.register('ended')
    const [expired, idle, signedOut] = [await signIn(account), await signIn(account), await signIn(account)]
    await db.run(`update sessions set expires_at = now() - interval '1 ms' where id = $1`, [
      sessionIdOf(expired.access_token),
    ])
    const expireToken = `update refresh_tokens set expires_at = now() - interval '1 ms' where session_id = $1`
    await db.run(expireToken, [sessionIdOf(idle.access_token)])
    await service.expect('logout', 204, { token: signedOut.access_token })
    const ids = (await listSessions(account)).map(({ id }) => id)
    t.strictSame(ids, [sessionIdOf(account.token)])
  })
})

t.test('revokeSession', async (t) => {
  const revoke = (token: string, session_id: string) =>
    service.call('revokeSession', { token, params: { session_id } })

  t.test('204: revokes its tokens at once, and no others', async (t) => {
    const account = await service.register('cautious')
    const [lost, kept] = [await signIn(account), await signIn(account)]
    for (const token of [lost.access_token, kept.access_token]) t.equal(await statusOf(token), 200)
    t.match(await revoke(account.token, sessionIdOf(lost.access_token)), { status: 204, body: null })
    t.equal(await statusOf(lost.access_token), 401)
    t.equal(await refreshStatusOf(lost.refresh_token), 401)
    for (const token of [account.token, kept.access_token]) t.equal(await statusOf(token), 200)
    t.equal(await refreshStatusOf(kept.refresh_token), 200)
    const event = (await auditOf(account)).at(-1)
    t.match(event, { action: 'session.ended', actor_id: account.id, token_id: null })
    t.equal(
      event?.session_id,
      sessionIdOf(lost.access_token),
      'the audit event has the id of the ended session',
    )
  })

  t.test('204 for the current session, by its id in upper case', async (t) => {
    const account = await service.register('leaver')
    t.equal((await revoke(account.token, sessionIdOf(account.token).toUpperCase())).status, 204)
    t.equal(await statusOf(account.token), 401)
    t.equal(await refreshStatusOf(account.refreshToken), 401)
  })

  t.test('204 for one of several requests at the same time, 404 for the others', async (t) => {
    const account = await service.register('hasty')
    const { access_token } = await signIn(account)
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => revoke(account.token, sessionIdOf(access_token))),
    )
    t.strictSame(countStatuses(replies), { 204: 1, 404: 4 })
    const ends = (await auditOf(account)).filter(({ action }) => action === 'session.ended')
    t.equal(ends.length, 1)
  })

  t.test('204: a refresh at the same time leaves no valid token', async (t) => {
    const account = await service.register('contested')
    for (let round = 0; round < 10; round += 1) {
      const { access_token, refresh_token } = await signIn(account)
      const [refreshed, revoked] = await Promise.all([
        service.call('refreshToken', { body: { refresh_token } }),
        revoke(account.token, sessionIdOf(access_token)),
      ])
      t.equal(revoked.status, 204)
      if (refreshed.status !== 200) continue
      const successor = refreshed.body as Awaited<ReturnType<typeof signIn>>
      t.equal(await statusOf(successor.access_token), 401)
      t.equal(await refreshStatusOf(successor.refresh_token), 401)
    }
    t.strictSame(
      (await listSessions(account)).map(({ id }) => id),
      [sessionIdOf(account.token)],
    )
  })

  t.test("404 for unknown, expired and other users' sessions, with the same body", async (t) => {
    const [account, other] = [await service.register('curious'), await service.register('private')]
    const expired = await signIn(account)
    await db.run(`update sessions set expires_at = now() - interval '1 ms' where id = $1`, [
      sessionIdOf(expired.access_token),
    ])
    const unknown = await revoke(account.token, unknownId)
    t.match(unknown, { status: 404, body: { code: 'not_found' } })
    for (const [what, token, of] of [
      ['expired', account.token, expired.access_token],
      ['of another user', account.token, other.token],
      ['of another user, for an administrator', admin.token, other.token],
    ] as const) {
      t.strictSame(withoutIds(await revoke(token, sessionIdOf(of))), withoutIds(unknown), what)
    }
    t.equal(await statusOf(other.token), 200)
    t.equal(await refreshStatusOf(other.refreshToken), 200)
    t.notOk((await auditOf(other)).some(({ action }) => action === 'session.ended'))
  })
})
