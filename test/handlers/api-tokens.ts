import t from 'tap'
import { hashApiToken } from '../../src/auth/api-tokens.ts'
import { sha256 } from '../../src/auth/sha256.ts'
import { accountActions, allScopes, startBeside } from '../fixture/accounts.ts'
import { untilRefused } from '../fixture/eventually.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf } from '../fixture/tasks.ts'

const service = await startService(t)
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, createApiToken, setRole, signIn, statusOf } = accountActions(service, admin)

const insufficientScope = { status: 403, body: { code: 'insufficient_scope' } }

const revoke = ({ token }: Pick<Account, 'token'>, token_id: string) =>
  service.call('revokeApiToken', { token, params: { token_id } })

const listApiTokens = async ({ token }: Account) =>
  (await service.expect('listApiTokens', 200, { token })).body.items

const inOneHour = (): string => new Date(Date.now() + 3_600_000).toISOString()

t.test('createApiToken', async (t) => {
  const account = await service.register('maker')
  const { token } = account
  const valid = { name: 'a program', scopes: ['tasks:read'] }

  t.test('201: the response shows the token, which works immediately', async (t) => {
    const body = { name: ' Nightly report\u0301 ', scopes: ['users:read', 'tasks:read'] }
    const { body: created, headers } = await service.expect('createApiToken', 201, { token, body })
    const { id, created_at, token: secret, ...rest } = created
    t.strictSame(rest, {
      name: 'Nightly report\u0301'.normalize('NFC'),
      scopes: ['users:read', 'tasks:read'],
      expires_at: null,
      last_used_at: null,
    })
    t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    t.equal(headers.get('location'), `/auth/tokens/${id}`)
    t.equal(headers.get('cache-control'), 'no-store')
    t.match(secret, /^twp_[0-9A-Za-z]{49}$/)
    t.ok(hashApiToken(secret), 'its checksum is valid')
    const me = await service.expect('getCurrentUser', 200, { token: secret })
    t.strictSame(me.body, account.user)
    const event = (await auditOf(account)).at(-1)
    t.match(event, { action: 'api_token.created', actor_id: account.id, token_id: id })
  })

  t.test('201: the database has only the hash of the token', async (t) => {
    const { id, token } = await createApiToken(account)
    const [row] = await db.run('select hash, api_tokens::text as text from api_tokens where id = $1', [id])
    t.same(row?.hash, sha256(token))
    const text = String(row?.text)
    for (const part of [token, token.slice(4), token.slice(4, -6)]) t.notOk(text.includes(part))
    t.notOk(text.includes(Buffer.from(token).toString('hex')))
  })

  t.test('201: all scopes, and an expiry with any time zone offset', async (t) => {
    const body = {
      ...valid,
      name: 'x'.repeat(100),
      scopes: allScopes,
      expires_at: '2999-01-01T00:30:00+01:00',
    }
    const created = (await service.expect('createApiToken', 201, { token, body })).body
    t.strictSame(created.scopes, allScopes)
    t.equal(created.expires_at, '2998-12-31T23:30:00.000Z')
    for (const expires_at of [null, '9999-12-31T23:59:59.999Z']) {
      const { expires_at: kept, token } = await createApiToken(account, { scopes: allScopes, expires_at })
      t.equal(kept, expires_at)
      t.equal(await statusOf(token), 200)
    }
  })

  t.test('201: the response stored for repeats does not contain the token', async (t) => {
    const request = { token, body: valid, headers: { 'idempotency-key': 'kept' } }
    const { body } = await service.expect('createApiToken', 201, request)
    const rows = await db.run('select kept::text as text from idempotency_keys kept', [])
    const dump = rows.map(({ text }) => String(text)).join()
    t.ok(dump.includes(body.id))
    for (const form of ['utf8', 'base64', 'base64url', 'hex'] as const)
      t.notOk(dump.includes(Buffer.from(body.token.slice(4, 40)).toString(form)), form)
  })

  t.test('400: a repeated scope, and an expiry that has passed', async (t) => {
    const before = (await listApiTokens(account)).length
    for (const [fields, pointer] of [
      [{ scopes: ['tasks:read', 'tasks:read'] }, '/scopes'],
      [{ expires_at: '2020-01-01T00:00:00Z' }, '/expires_at'],
      [{ expires_at: '0001-01-01T00:00:00Z' }, '/expires_at'],
      [{ expires_at: new Date().toISOString() }, '/expires_at'],
    ] as const) {
      const { body } = await service.expect('createApiToken', 400, { token, body: { ...valid, ...fields } })
      t.strictSame(pointersOf(body), [pointer], JSON.stringify(fields))
    }
    t.equal((await listApiTokens(account)).length, before)
  })
})

t.test('listApiTokens', async (t) => {
  t.test('200: newest first, without the secrets', async (t) => {
    const account = await service.register('lister')
    const older = await createApiToken(account, { name: 'older', expires_at: inOneHour() })
    const newer = await createApiToken(account, { name: 'newer', scopes: ['tags:write', 'tags:read'] })
    const { body, headers } = await service.expect('listApiTokens', 200, { token: account.token })
    const shown = [newer, older].map(({ token: _token, ...rest }) => rest)
    t.strictSame(body, { items: shown, next_cursor: null, prev_cursor: null, total: null })
    t.equal(headers.get('cache-control'), 'private, no-cache')
    t.match(headers.get('link'), /^<\/auth\/tokens\?limit=50>; rel="first"$/)
  })

  t.test('200: only the tokens of the caller, even for an administrator', async (t) => {
    const account = await service.register('secretive')
    const { id } = await createApiToken(account)
    t.notOk((await listApiTokens(admin)).some((token) => token.id === id))
    t.strictSame(await listApiTokens(await service.register('newcomer')), [])
  })

  t.test('200: an expired token is listed until it is revoked', async (t) => {
    const account = await service.register('keeper')
    const { id } = await createApiToken(account, { expires_at: inOneHour() })
    await db.run(`update api_tokens set expires_at = now() - interval '1 ms' where id = $1`, [id])
    t.match(await listApiTokens(account), [{ id }])
    t.equal((await revoke(account, id)).status, 204)
    t.strictSame(await listApiTokens(account), [])
  })

  t.test('200: last_used_at moves at most once a minute', async (t) => {
    const account = await service.register('user')
    const { id, token } = await createApiToken(account)
    const lastUse = async () => (await listApiTokens(account))[0]?.last_used_at ?? null
    const use = async () => {
      const fresh = await startBeside(t, service)
      await fresh.expect('listTasks', 200, { token })
    }
    t.equal(await lastUse(), null)
    await use()
    const first = await lastUse()
    t.ok(Math.abs(Date.parse(first ?? '') - Date.now()) < 60_000)
    for (const { seconds, moves } of [
      { seconds: 40, moves: false },
      { seconds: 61, moves: true },
      // Before the clock was set back.
      { seconds: -3_600, moves: true },
    ]) {
      await db.run(
        `update api_tokens set last_used_at = now() - $2::int * interval '1 second' where id = $1`,
        [id, seconds],
      )
      const before = await lastUse()
      await use()
      t.equal((await lastUse()) !== before, moves, `after ${seconds} seconds`)
    }
  })
})

t.test('revokeApiToken', async (t) => {
  t.test('204: the token is rejected at once, and other tokens still work', async (t) => {
    const account = await service.register('revoker')
    const [revoked, kept] = [
      await createApiToken(account, { scopes: ['users:read'] }),
      await createApiToken(account, { scopes: ['users:read'] }),
    ]
    for (const { token } of [revoked, kept]) t.equal(await statusOf(token), 200)
    t.match(await revoke(account, revoked.id.toUpperCase()), { status: 204, body: null })
    t.equal(await statusOf(revoked.token), 401)
    for (const { token } of [kept, account]) t.equal(await statusOf(token), 200)
    t.strictSame(
      (await listApiTokens(account)).map(({ id }) => id),
      [kept.id],
    )
    const event = (await auditOf(account)).at(-1)
    t.match(event, { action: 'api_token.revoked', actor_id: account.id, token_id: revoked.id })
  })

  t.test('204 for one of many concurrent requests, 404 for the others', async (t) => {
    const account = await service.register('hasty')
    const { id } = await createApiToken(account)
    const replies = await Promise.all(Array.from({ length: 5 }, () => revoke(account, id)))
    t.strictSame(countStatuses(replies), { 204: 1, 404: 4 })
  })
})

t.test('listUserApiTokens', async (t) => {
  const account = await service.register('suspect')

  t.test('200: the tokens of the user, for an administrator', async (t) => {
    const { token: _token, ...shown } = await createApiToken(account)
    await createApiToken(admin)
    const request = { token: admin.token, params: { user_id: account.id.toUpperCase() } }
    const { body, headers } = await service.expect('listUserApiTokens', 200, request)
    t.strictSame(body, { items: [shown], next_cursor: null, prev_cursor: null, total: null })
    t.equal(headers.get('cache-control'), 'private, no-cache')
  })
})

t.test('revokeUserApiToken', async (t) => {
  const account = await service.register('robbed')
  const revokeOf = ({ token }: Pick<Account, 'token'>, user_id: string, token_id: string) =>
    service.call('revokeUserApiToken', { token, params: { user_id, token_id } })

  t.test('204: the token is rejected at once, and the audit log names the administrator', async (t) => {
    const { id, token } = await createApiToken(account, { scopes: ['users:read'] })
    t.equal(await statusOf(token), 200)
    t.match(await revokeOf(admin, account.id.toUpperCase(), id.toUpperCase()), { status: 204, body: null })
    t.equal(await statusOf(token), 401)
    const event = (await auditOf(account)).at(-1)
    t.match(event, { action: 'api_token.revoked', actor_id: admin.id, user_id: account.id, token_id: id })
  })

  t.test('404: a token of another user', async (t) => {
    const { id } = await createApiToken(account)
    t.match(await revokeOf(admin, admin.id, id), { status: 404 })
  })
})

t.test('API tokens', async (t) => {
  t.test('401: an expired token', async (t) => {
    const account = await service.register('dated')
    const { id, token } = await createApiToken(account, { scopes: allScopes, expires_at: inOneHour() })
    t.equal(await statusOf(token), 200)
    await db.run(`update api_tokens set expires_at = now() - interval '1 ms' where id = $1`, [id])
    const fresh = await startBeside(t, service)
    const refused = await fresh.call('getCurrentUser', { token })
    t.match(refused, { status: 401, body: { code: 'unauthorized' } })
    t.match(refused.headers.get('www-authenticate'), 'error="invalid_token"')
  })

  t.test('401: a token that expires while it is cached', async (t) => {
    const account = await service.register('brief')
    const expires_at = new Date(Date.now() + 4_000).toISOString()
    const { token } = await createApiToken(account, { scopes: allScopes, expires_at })
    t.equal(await statusOf(token), 200)
    const { accepted, refused } = await untilRefused(() => statusOf(token))
    t.ok(refused >= Date.parse(expires_at), 'not before it expires')
    const late = accepted - Date.parse(expires_at)
    t.ok(late < 2_800, `${late} ms after it expired`)
  })

  t.test('401: a modified token, or a token outside of a Bearer Authorization header', async (t) => {
    const { token } = await createApiToken(admin, { scopes: allScopes })
    const other = `${token.slice(0, 10)}${token[10] === 'x' ? 'y' : 'x'}${token.slice(11)}`
    for (const wrong of [other, token.slice(0, -1), `${token}A`, token.toLowerCase()]) {
      t.equal(await statusOf(wrong), 401, wrong)
    }
    await service.expect('refreshToken', 401, { body: { refresh_token: token } })
    await service.expect('resetPassword', 401, { body: { token, new_password: 'a new password' } })
    await service.expect('getCurrentUser', 401, { headers: { authorization: `Token ${token}` } })
    await service.expect('getCurrentUser', 401, { headers: { cookie: `access_token=${token}` } })
    t.equal(await statusOf(token), 200)
  })

  t.test('a token outlives the sessions of its user', async (t) => {
    const account = await service.register('offline')
    const { token } = await createApiToken(account, { scopes: allScopes })
    const { access_token } = await signIn(account)
    await service.expect('logout', 204, { token: access_token, query: { everywhere: true } })
    t.equal(await statusOf(account.token), 401)
    t.equal(await statusOf(token), 200)
  })

  t.test('401: deleting a user deletes their tokens at once', async (t) => {
    const account = await service.register('leaver')
    const { token } = await createApiToken(account, { scopes: allScopes })
    t.equal(await statusOf(token), 200)
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: account.id } })
    t.equal(await statusOf(token), 401)
    const [row] = await db.run('select count(*)::int from api_tokens where user_id = $1', [account.id])
    t.equal(row?.count, 0)
  })

  t.test('demoting a user restricts their tokens at once', async (t) => {
    const former = await service.register('former')
    await setRole(former, 'admin')
    const { token } = await createApiToken(former, { scopes: allScopes })
    const person = (username: string) => ({
      username,
      email: `${username}@example.com`,
      password: 'correct horse battery',
    })
    await service.expect('createUser', 201, { token, body: person('hired') })
    const { body: task } = await service.expect('createTask', 201, {
      token: admin.token,
      body: { title: 'For administrators' },
    })
    await service.expect('getTask', 200, { token, params: { task_id: task.id } })
    await setRole(former, 'member')
    t.match(await service.call('createUser', { token, body: person('refused') }), {
      status: 403,
      body: { code: 'forbidden' },
    })
    await service.expect('getTask', 404, { token, params: { task_id: task.id } })
  })

  t.test('a write scope includes the read scope, but not the reverse', async (t) => {
    const account = await service.register('writer')
    const { body: task } = await service.expect('createTask', 201, {
      token: account.token,
      body: { title: 'Readable' },
    })
    const reads = {
      'tasks:write': { id: 'getTask', params: { task_id: task.id } },
      'tags:write': { id: 'listTags' },
      'projects:write': { id: 'listProjects' },
      'attachments:write': { id: 'listTaskAttachments', params: { task_id: task.id } },
      'users:write': { id: 'getCurrentUser' },
      'notifications:write': { id: 'listNotifications' },
      'webhooks:write': { id: 'listWebhooks' },
    } as const
    for (const [scope, { id, ...request }] of Object.entries(reads)) {
      const { token } = await createApiToken(account, { scopes: [scope] })
      t.match(await service.call(id, { token, ...request }), { status: 200 }, scope)
      const [topic] = scope.split(':')
      const { token: reader } = await createApiToken(account, { scopes: [`${topic}:read`] })
      t.match(await service.call(id, { token: reader, ...request }), { status: 200 })
    }
    const { token: reader } = await createApiToken(account, { scopes: ['tasks:read'] })
    const change = { params: { task_id: task.id }, body: {} }
    t.match(await service.call('updateTask', { token: reader, ...change }), insufficientScope)
  })

  t.test('403: a token cannot delete its own user, even if that is an administrator', async (t) => {
    const boss = await service.register('boss')
    await setRole(boss, 'admin')
    for (const account of [boss, await service.register('subject')]) {
      const { token } = await createApiToken(account, { scopes: allScopes })
      const refused = await service.call('deleteUser', { token, params: { user_id: account.id } })
      t.match(refused, { status: 403, body: { code: 'forbidden' } })
      t.equal(await statusOf(account.token), 200)
    }
    const { token } = await createApiToken(boss, { scopes: allScopes })
    const other = await service.register('removable')
    await service.expect('deleteUser', 204, { token, params: { user_id: other.id } })
  })

  t.test('403: a token cannot create an administrator, even if the username is taken', async (t) => {
    const { token } = await createApiToken(admin, { scopes: allScopes })
    const body = { username: 'admin', email: 'made@example.com', password: 'correct horse', role: 'admin' }
    const refused = await service.call('createUser', { token, body })
    t.match(refused, { status: 403, body: { code: 'forbidden' } })
  })

  t.test('Idempotency-Keys are shared with the sessions of the user, and with no other user', async (t) => {
    const account = await service.register('repeater')
    const { token } = await createApiToken(account, { scopes: ['tasks:write'] })
    const { token: reader } = await createApiToken(account, { scopes: ['tasks:read'] })
    const request = (token: string, title = 'Once') => ({
      token,
      body: { title },
      headers: { 'idempotency-key': 'shared' },
    })
    const first = await service.expect('createTask', 201, request(account.token))
    const repeat = await service.expect('createTask', 201, request(token))
    t.equal(repeat.headers.get('idempotency-replayed'), 'true')
    t.strictSame(repeat.body, first.body)
    await service.expect('createTask', 422, request(token, 'Twice'))
    t.match(
      await service.call('createTask', request(reader)),
      insufficientScope,
      'a replay requires the scope as well',
    )
    const other = await service.expect('createTask', 201, request((await service.register('other')).token))
    t.not(other.body.id, first.body.id)
  })

  t.test('403: after a demotion, a token cannot replay the creation of an administrator', async (t) => {
    const former = await service.register('demoted')
    await setRole(former, 'admin')
    const { token } = await createApiToken(former, { scopes: allScopes })
    const body = { username: 'heir', email: 'heir@example.com', password: 'correct horse', role: 'admin' }
    const headers = { 'idempotency-key': 'heir' }
    await service.expect('createUser', 201, { token: former.token, body, headers })
    await setRole(former, 'member')
    t.match(await service.call('createUser', { token, body, headers }), { status: 403 })
  })
})
