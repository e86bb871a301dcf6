import { Secret, TOTP } from 'otpauth'
import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { accountActions, from, withoutIds } from '../fixture/accounts.ts'
import { narrowHasher, whileHashing } from '../fixture/hashing.ts'
import { type Account, type Call, type Service, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, unknownId } from '../fixture/tasks.ts'

const service = await startService(t, { config: { trustProxy: ['127.0.0.1'] } })
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, createApiToken, refreshStatusOf, setRole, signIn, statusOf } = accountActions(service, admin)

const newPassword = 'staple the battery'
const malformed = ['', '1234567', 'p'.repeat(257), '\u{1f40e}'.repeat(257), 'e\u0301'.repeat(7), 7, null]
const tooLong = 'p'.repeat(10_000)

const loginStatus = async ({ email }: Pick<Account, 'email'>, password: string): Promise<number> =>
  (await service.call('login', { body: { email, password } })).status

const change = ({ token, password }: Account, fields: object = {}, headers: Call['headers'] = {}) =>
  service.call('changePassword', {
    token,
    body: { current_password: password, new_password: newPassword, ...fields },
    headers,
  })

/** Requests a reset. Returns the token from the mail. */
const mailedToken = async ({ email }: Pick<Account, 'email'>, at: Service = service): Promise<string> => {
  const before = at.mails.length
  await at.expect('forgotPassword', 202, { body: { email } })
  const mail = at.mails[before]
  if (mail === undefined) throw new Error(`No mail was sent to ${email}`)
  return mail.token
}

const reset = (token: string, new_password: unknown = newPassword) =>
  service.call('resetPassword', { body: { token, new_password } })

const set = ({ token }: Pick<Account, 'token'>, user_id: string, fields: object = {}) =>
  service.call('setUserPassword', { token, params: { user_id }, body: { password: newPassword, ...fields } })

/** Enables the second factor of an account. */
const enroll = async ({ token, password }: Account): Promise<void> => {
  const { body } = await service.expect('enrollSecondFactor', 201, { token, body: { password } })
  const code = new TOTP({ secret: Secret.fromBase32(body.secret) }).generate()
  await service.expect('confirmSecondFactor', 200, { token, body: { code } })
}

t.test('changePassword', async (t) => {
  t.test('204: sets the password and ends all other sessions, but not API tokens', async (t) => {
    const account = await service.register('changer')
    const others = [await signIn(account), await signIn(account)]
    const { token: apiToken } = await createApiToken(account, { scopes: ['users:read'] })
    for (const { access_token } of others) t.equal(await statusOf(access_token), 200)
    t.match(await change(account), { status: 204, body: null })
    for (const { access_token, refresh_token } of others) {
      t.equal(await statusOf(access_token), 401)
      t.equal(await refreshStatusOf(refresh_token), 401)
    }
    for (const token of [account.token, apiToken]) t.equal(await statusOf(token), 200)
    t.equal(await refreshStatusOf(account.refreshToken), 200)
    t.equal(await loginStatus(account, account.password), 401)
    t.equal(await loginStatus(account, newPassword), 200)
    const event = (await auditOf(account)).find(({ action }) => action === 'password.changed')
    t.match(event, { actor_id: account.id, token_id: null, address: '127.0.0.1' })
  })

  t.test('204: other users stay signed in', async (t) => {
    const [account, other] = [await service.register('private'), await service.register('bystander')]
    t.equal((await change(account)).status, 204)
    t.equal(await statusOf(other.token), 200)
    t.equal(await refreshStatusOf(other.refreshToken), 200)
    t.equal(await loginStatus(other, other.password), 200)
  })

  t.test('204: concurrent sign-ins with the old password do not survive', async (t) => {
    for (let round = 0; round < 10; round += 1) {
      const account = await service.register(`rushed${round}`)
      const { email, password } = account
      const login = (index: number) =>
        service.call('login', { body: { email, password }, headers: from(`198.51.100.${index}`) })
      const [changed, ...logins] = await Promise.all([change(account), ...[1, 2, 3, 4, 5, 6].map(login)])
      t.equal(changed.status, 204)
      for (const { status } of logins) t.ok(status === 200 || status === 401)
      const [row] = await db.run('select count(*)::int from sessions where user_id = $1', [account.id])
      t.equal(row?.count, 1)
    }
  })

  t.test('204: any Unicode normalization form, without truncation', async (t) => {
    const account = await service.register('unicode')
    const longest = 'e\u0301'.repeat(127)
    t.equal((await change(account, { new_password: `${longest}p` })).status, 204)
    t.equal(await loginStatus(account, `${'\u00e9'.repeat(127)}p`), 200)
    t.equal(await loginStatus(account, longest), 401)
    const composed = { current_password: `${'\u00e9'.repeat(127)}p`, new_password: 'a  b  c  ' }
    t.equal((await change(account, composed)).status, 204)
    t.equal(await loginStatus(account, 'a  b  c'), 401)
    t.equal(await loginStatus(account, 'a  b  c  '), 200)
  })

  t.test('400: invalid fields', async (t) => {
    const account = await service.register('careless')
    for (const value of [...malformed, tooLong]) {
      const { status, body } = await change(account, { new_password: value })
      t.match({ status, body }, { status: 400, body: { errors: [{ pointer: '/new_password' }] } })
    }
    for (const [fields, pointer] of [
      [{ current_password: undefined }, '/current_password'],
      [{ current_password: '' }, '/current_password'],
      [{ current_password: tooLong }, '/current_password'],
      [{ new_password: undefined }, '/new_password'],
      [{ user_id: admin.id }, '/user_id'],
      [{ role: 'admin' }, '/role'],
    ] as const) {
      t.match(await change(account, fields), { status: 400, body: { errors: [{ pointer }] } }, pointer)
    }
    t.equal(await loginStatus(account, account.password), 200)
    t.notOk(
      (await auditOf(account)).some(({ action }) => action === 'proof.failed'),
      'not a failed attempt',
    )
  })

  t.test('422: a wrong current password', async (t) => {
    const account = await service.register('mistaken')
    const other = await signIn(account)
    const { body } = await service.expect('changePassword', 422, {
      token: account.token,
      body: { current_password: admin.password, new_password: newPassword },
    })
    t.equal(body.code, 'wrong_password')
    t.strictSame(pointersOf(body), ['/current_password'])
    t.equal(await statusOf(other.access_token), 200)
    t.equal(await loginStatus(account, account.password), 200)
    const event = (await auditOf(account)).find(({ action }) => action === 'proof.failed')
    t.match(event, { actor_id: account.id, token_id: null })
  })

  t.test('204 for one of several concurrent changes, 422 for the others', async (t) => {
    const account = await service.register('racer')
    const passwords = ['first', 'second', 'third', 'fourth', 'fifth'].map((word) => `the ${word} password`)
    const replies = await Promise.all(passwords.map((new_password) => change(account, { new_password })))
    t.strictSame(countStatuses(replies), { 204: 1, 422: 4 })
    const statuses = await Promise.all(passwords.map((password) => loginStatus(account, password)))
    t.strictSame(
      statuses,
      replies.map(({ status }) => (status === 204 ? 200 : 401)),
    )
  })

  t.test('429: five wrong passwords delay further attempts from that network', async (t) => {
    const account = await service.register('guessed')
    const guess = (headers: Call['headers']) => change(account, { current_password: 'a wild guess' }, headers)
    const here = from('192.0.2.1')
    for (let count = 0; count < 5; count += 1) t.equal((await guess(here)).status, 422)
    for (const attempt of [() => guess(here), () => change(account, {}, here)]) {
      const refused = await attempt()
      t.match(refused, { status: 429, body: { code: 'too_many_requests' } }, 'even with the right password')
      const seconds = Number(refused.headers.get('retry-after'))
      t.ok(seconds >= 1 && seconds <= 5, String(seconds))
    }
    t.equal(await loginStatus(account, account.password), 200, 'sign-ins are limited separately')
    t.equal((await change(account, {}, from('192.0.2.2'))).status, 204)
    await db.run(`update attempts set delayed_until = now() - interval '1 ms'`, [])
    t.equal((await guess(here)).status, 422)
    const refused = await change(account, { current_password: newPassword }, here)
    const seconds = Number(refused.headers.get('retry-after'))
    t.ok(seconds > 5 && seconds <= 10, 'the delay doubles')
  })

  t.test('429: the right password resets the count of failures', async (t) => {
    const account = await service.register('forgiven')
    const guess = async () => (await change(account, { current_password: 'a wild guess' })).status
    for (let count = 0; count < 4; count += 1) t.equal(await guess(), 422)
    t.equal((await change(account)).status, 204)
    for (let count = 0; count < 5; count += 1) t.equal(await guess(), 422)
    t.equal(await guess(), 429)
  })

  t.test('429: five of twenty concurrent guesses are checked', async (t) => {
    const account = await service.register('stormed')
    const guesses = Array.from({ length: 20 }, () => change(account, { current_password: 'a wild guess' }))
    t.strictSame(countStatuses(await Promise.all(guesses)), { 422: 5, 429: 15 })
  })
})

t.test('forgotPassword', async (t) => {
  const forgot = (email: unknown) => service.call('forgotPassword', { body: { email } })
  const mailsTo = (email: string) => service.mails.filter(({ to }) => to === email)

  t.test('202: a mail to the address of the account, for any spelling', async (t) => {
    const account = await service.register('forgetful')
    for (const email of [account.email, ' FORGETFUL@Example.com\t']) {
      t.match(await forgot(email), { status: 202, body: null })
    }
    const mails = mailsTo(account.email)
    t.equal(mails.length, 2)
    for (const { token } of mails) t.match(token, /^twx_[\w-]{43}$/)
    t.not(mails[0]?.token, mails[1]?.token)
    t.match((await auditOf(account)).at(-1), { action: 'password.reset_requested', actor_id: null })
  })

  t.test('202: the database has only the hash of the token', async (t) => {
    const token = await mailedToken(await service.register('hashed'))
    const rows = await db.run(`select one_time_tokens::text as row from one_time_tokens`, [])
    const text = JSON.stringify(rows)
    t.ok(text.length > 100)
    t.notOk(text.includes(token.slice(4)))
    t.notOk(text.includes(Buffer.from(token).toString('hex')))
  })

  t.test('202: no mail to unknown addresses or after three in an hour, indistinguishably', async (t) => {
    const account = await service.register('impatient')
    const known = await forgot(account.email)
    const before = service.mails.length
    t.strictSame(withoutIds(await forgot('nobody@example.com')), withoutIds(known))
    t.equal(service.mails.length, before)
    for (let count = 0; count < 3; count += 1) {
      t.strictSame(withoutIds(await forgot(account.email)), withoutIds(known))
    }
    t.equal(mailsTo(account.email).length, 3)
    const tokens = mailsTo(account.email).map(({ token }) => token)
    await db.run(
      `update one_time_tokens set created_at = created_at - interval '61 minutes',
         expires_at = expires_at - interval '61 minutes' where user_id = $1`,
      [account.id],
    )
    await forgot(account.email)
    t.equal(mailsTo(account.email).length, 4, 'after an hour')
    for (const token of tokens) t.equal((await reset(token)).status, 401)
  })

  t.test('202: ten concurrent requests send at most three mails', async (t) => {
    const account = await service.register('insistent')
    const replies = await Promise.all(Array.from({ length: 10 }, () => forgot(account.email)))
    t.strictSame(countStatuses(replies), { 202: 10 })
    const { length } = mailsTo(account.email)
    t.ok(length >= 1 && length <= 3, String(length))
  })

  t.test('202: the password and the sessions stay valid', async (t) => {
    const account = await service.register('teased')
    await mailedToken(account)
    t.equal(await statusOf(account.token), 200)
    t.equal(await loginStatus(account, account.password), 200)
  })

  t.test('400: invalid fields send no mail', async (t) => {
    const before = service.mails.length
    for (const email of [
      '',
      'nobody',
      `${admin.email}, nobody@example.com`,
      `${admin.email}\r\nBcc: nobody@example.com`,
      [admin.email],
      { $ne: '' },
      7,
      null,
      undefined,
      `${'a'.repeat(250)}@x.io`,
    ]) {
      t.match(await forgot(email), { status: 400, body: { errors: [{ pointer: '/email' }] } })
    }
    const body = { email: admin.email, url: 'https://example.com' }
    t.strictSame(pointersOf((await service.expect('forgotPassword', 400, { body })).body), ['/url'])
    t.equal(service.mails.length, before)
  })
})

t.test('resetPassword', async (t) => {
  t.test('204: sets the password and ends all sessions, but not API tokens', async (t) => {
    const account = await service.register('recovered')
    const other = await signIn(account)
    const { token: apiToken } = await createApiToken(account, { scopes: ['users:read'] })
    for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 200)
    t.match(await reset(await mailedToken(account)), { status: 204, body: null })
    for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 401)
    for (const token of [account.refreshToken, other.refresh_token]) {
      t.equal(await refreshStatusOf(token), 401)
    }
    t.equal(await statusOf(apiToken), 200)
    t.equal(await loginStatus(account, account.password), 401)
    t.equal(await loginStatus(account, newPassword), 200)
    const event = (await auditOf(account)).find(({ action }) => action === 'password.reset')
    t.match(event, { actor_id: account.id, session_id: null, token_id: null })
  })

  t.test('204: any Unicode normalization form', async (t) => {
    const account = await service.register('accented')
    t.equal((await reset(await mailedToken(account), 'cafe\u0301 au lait')).status, 204)
    t.equal(await loginStatus(account, 'caf\u00e9 au lait'), 200)
  })

  t.test('204: the second factor stays enabled', async (t) => {
    const account = await service.register('twofold')
    await enroll(account)
    t.equal((await reset(await mailedToken(account))).status, 204)
    const login = { body: { email: account.email, password: newPassword } }
    t.match((await service.expect('login', 401, login)).body, { code: 'second_factor_required' })
  })

  t.test('204 for one of several concurrent uses of a token, 401 for the others', async (t) => {
    const account = await service.register('eager')
    const token = await mailedToken(account)
    const passwords = ['first', 'second', 'third'].map((word) => `the ${word} password`)
    const replies = await Promise.all(passwords.map((password) => reset(token, password)))
    t.strictSame(countStatuses(replies), { 204: 1, 401: 2 })
    const statuses = await Promise.all(passwords.map((password) => loginStatus(account, password)))
    t.strictSame(
      statuses,
      replies.map(({ status }) => (status === 204 ? 200 : 401)),
    )
    t.equal((await reset(token)).status, 401)
  })

  t.test('400 does not use up the token', async (t) => {
    const account = await service.register('sloppy')
    const token = await mailedToken(account)
    for (const value of [...malformed, tooLong, undefined]) {
      const body = { token, new_password: value }
      const { body: problem } = await service.expect('resetPassword', 400, { body })
      t.strictSame(pointersOf(problem), ['/new_password'])
    }
    for (const value of ['', 7, null, [token], 'x'.repeat(513), undefined]) {
      const body = { token: value, new_password: newPassword }
      t.strictSame(pointersOf((await service.expect('resetPassword', 400, { body })).body), ['/token'])
    }
    const body = { token, new_password: newPassword, email: admin.email }
    t.strictSame(pointersOf((await service.expect('resetPassword', 400, { body })).body), ['/email'])
    t.equal((await reset(token)).status, 204)
  })

  t.test('401: an invalid token, or one of another kind', async (t) => {
    const account = await service.register('confused')
    const token = await mailedToken(account)
    const { token: apiToken } = await createApiToken(account)
    const refused = await reset(`twx_${'A'.repeat(43)}`)
    t.match(refused, { status: 401, body: { code: 'invalid_credentials' } })
    t.equal(refused.headers.get('cache-control'), 'no-store')
    const others = [
      'x',
      token.slice(4),
      `${token}A`,
      ` ${token}`,
      token.replace('twx_', 'twc_'),
      account.token,
      account.refreshToken,
      apiToken,
    ]
    for (const other of others) {
      t.strictSame(withoutIds(await reset(other)), withoutIds(refused), other.slice(0, 10))
    }
    t.equal(await statusOf(token), 401, 'a reset token is not an access token')
    t.equal((await reset(token)).status, 204)
  })

  t.test('401: a challenge is not a reset token, nor the reverse', async (t) => {
    const account = await service.register('challenged')
    await enroll(account)
    const login = { body: { email: account.email, password: account.password } }
    const { challenge } = (await service.expect('login', 401, login)).body
    t.match(challenge, /^twc_/)
    for (const token of [challenge, challenge?.replace('twc_', 'twx_')]) {
      t.equal((await reset(token ?? '')).status, 401)
    }
    const token = await mailedToken(account)
    for (const proof of [token, token.replace('twx_', 'twc_')]) {
      await service.expect('completeLogin', 401, { body: { challenge: proof, code: '000000' } })
    }
  })

  t.test('401: the token is older than 30 minutes', async (t) => {
    const account = await service.register('slow')
    const token = await mailedToken(account)
    const age = (minutes: number) =>
      db.run(
        `update one_time_tokens set created_at = created_at - $2::int * interval '1 minute',
           expires_at = expires_at - $2::int * interval '1 minute' where user_id = $1`,
        [account.id, minutes],
      )
    await age(31)
    t.equal((await reset(token)).status, 401)
    await age(-2)
    t.equal((await reset(token)).status, 204)
  })

  t.test('401: a change of password or address, or deletion, invalidates the token', async (t) => {
    const invalidations: Readonly<Record<string, (account: Account) => Promise<unknown>>> = {
      'password changed': (account) => change(account),
      'password set by an administrator': ({ id }) => set(admin, id),
      'password reset by a later mail': async (account) =>
        reset(await mailedToken(account), 'yet another one'),
      'address changed': ({ id, token }) =>
        service.expect('updateUser', 200, {
          token,
          params: { user_id: id },
          body: { email: `elsewhere-${id}@example.com` },
        }),
      'address changed by an administrator': ({ id, user: { username, display_name, role } }) =>
        service.expect('replaceUser', 200, {
          token: admin.token,
          params: { user_id: id },
          body: { username, display_name, role, email: `replaced-${id}@example.com` },
        }),
      'account deleted': ({ id, token }) =>
        service.expect('deleteUser', 204, { token, params: { user_id: id } }),
    }
    for (const [index, [name, invalidate]] of Object.entries(invalidations).entries()) {
      const account = await service.register(`void${index}`)
      const token = await mailedToken(account)
      await invalidate(account)
      t.equal((await reset(token, 'a stolen account')).status, 401, name)
      t.equal(await loginStatus(account, 'a stolen account'), 401, name)
    }
  })

  t.test('204: an update that keeps the address does not invalidate the token', async (t) => {
    const account = await service.register('kept')
    const token = await mailedToken(account)
    const params = { user_id: account.id }
    const body = { email: 'KEPT@example.com', display_name: 'Kept' }
    await service.expect('updateUser', 200, { token: account.token, params, body })
    t.equal((await reset(token)).status, 204)
  })
})

t.test('setUserPassword', async (t) => {
  t.test('204: sets the password and ends all sessions of the user', async (t) => {
    const account = await service.register('helped')
    const other = await signIn(account)
    for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 200)
    t.match(await set(admin, account.id.toUpperCase()), { status: 204, body: null })
    for (const token of [account.token, other.access_token]) t.equal(await statusOf(token), 401)
    for (const token of [account.refreshToken, other.refresh_token]) {
      t.equal(await refreshStatusOf(token), 401)
    }
    t.equal(await loginStatus(account, account.password), 401)
    t.equal(await loginStatus(account, newPassword), 200)
    t.equal(await statusOf(admin.token), 200)
    const event = (await auditOf(account)).find(({ action }) => action === 'password.set')
    t.match(event, { actor_id: admin.id, user_id: account.id, token_id: null })
  })

  t.test('204: disables the second factor on request', async (t) => {
    const account = await service.register('locked-out')
    await enroll(account)
    const login = { body: { email: account.email, password: newPassword } }
    for (const fields of [{}, { reset_second_factor: false }]) {
      t.equal((await set(admin, account.id, fields)).status, 204)
      t.match((await service.expect('login', 401, login)).body, { code: 'second_factor_required' })
    }
    t.equal((await set(admin, account.id, { reset_second_factor: true })).status, 204)
    const { body } = await service.expect('login', 200, login)
    const state = await service.expect('getSecondFactor', 200, { token: body.access_token })
    t.strictSame(state.body, { is_enabled: false, confirmed_at: null, recovery_codes_left: 0 })
    const event = (await auditOf(account)).find(({ action }) => action === 'second_factor.disabled')
    t.match(event, { actor_id: admin.id, user_id: account.id })
    t.equal(
      (await set(admin, account.id, { reset_second_factor: true })).status,
      204,
      'even without a second factor',
    )
    const disabled = (await auditOf(account)).filter(({ action }) => action === 'second_factor.disabled')
    t.equal(disabled.length, 1)
  })

  t.test('204: invalidates pending challenges', async (t) => {
    const account = await service.register('halfway')
    await enroll(account)
    const login = { body: { email: account.email, password: account.password } }
    const { challenge } = (await service.expect('login', 401, login)).body
    t.equal((await set(admin, account.id)).status, 204)
    const [row] = await db.run('select count(*)::int from one_time_tokens where user_id = $1', [account.id])
    t.equal(row?.count, 0)
    await service.expect('completeLogin', 401, { body: { challenge, code: '000000' } })
  })

  t.test('403: a member for anyone, and an administrator for themselves', async (t) => {
    const [member, other] = [await service.register('climber'), await service.register('target')]
    for (const id of [other.id, admin.id, member.id, unknownId]) {
      t.match(await set(member, id), { status: 403, body: { code: 'forbidden' } }, id)
    }
    t.match(await set(admin, admin.id, { reset_second_factor: true }), { status: 403 })
    for (const account of [other, admin, member]) {
      t.equal(await statusOf(account.token), 200)
      t.equal(await loginStatus(account, account.password), 200)
    }
  })

  t.test('403: an API token of an administrator, and a former administrator', async (t) => {
    const former = await service.register('former')
    await setRole(former, 'admin')
    const target = await service.register('protected')
    const { token } = await createApiToken(former, { scopes: ['users:read', 'users:write'] })
    t.match(await set({ token }, target.id), { status: 403, body: { code: 'insufficient_scope' } })
    t.equal((await set(former, target.id)).status, 204)
    await setRole(former, 'member')
    t.match(await set(former, target.id), { status: 403, body: { code: 'forbidden' } })
  })
})

t.test('429: the queue for hashing passwords is full, and the token is not used up', async (t) => {
  const passwords = narrowHasher()
  const narrow = await startService(t, { db, passwords })
  const account = await narrow.register('patient')
  const token = await mailedToken(account, narrow)
  const requests: Readonly<[OperationId, Call][]> = [
    [
      'changePassword',
      { token: account.token, body: { current_password: account.password, new_password: newPassword } },
    ],
    [
      'setUserPassword',
      { token: admin.token, params: { user_id: account.id }, body: { password: newPassword } },
    ],
    ['resetPassword', { body: { token, new_password: newPassword } }],
  ]
  await whileHashing(passwords, async () => {
    for (const [operation, request] of requests) {
      const refused = await narrow.call(operation, request)
      t.match(refused, { status: 429, body: { code: 'too_many_requests' } }, operation)
      t.equal(refused.headers.get('retry-after'), '2')
    }
    for (const body of [
      { token, new_password: tooLong },
      { token: `twx_${'A'.repeat(43)}`, new_password: newPassword },
    ]) {
      const { status } = await narrow.call('resetPassword', { body })
      t.ok(status === 400 || status === 401, 'rejected without hashing')
    }
    await narrow.expect('forgotPassword', 202, { body: { email: admin.email } })
  })
  await narrow.expect('getCurrentUser', 200, { token: account.token })
  await narrow.expect('resetPassword', 204, { body: { token, new_password: newPassword } })
})
