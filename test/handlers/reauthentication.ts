import t, { type Test } from 'tap'
import { noMailer } from '../../src/mail/mailer.ts'
import { accountActions, startBeside } from '../fixture/accounts.ts'
import { isInvalid, refusesBodies } from '../fixture/refusals.ts'
import { secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, unknownId } from '../fixture/tasks.ts'

/** What an access token alone must not do, and how a session proves more than that. */

const service = await startService(t)
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, createApiToken, refreshStatusOf, signIn, statusOf } = accountActions(service, admin)
const { registerGuarded } = secondFactorActions(service)

const required = { status: 403, body: { code: 'reauthentication_required' } }

let count = 0
const unique = (): string => `u${(count += 1)}`
const another = (): Promise<Account> => service.register(unique())
const newAddress = () => ({ email: `${unique()}@example.com` })

/** Lets the sessions of a user have authenticated a while ago. */
const age = (account: Pick<Account, 'id'>, minutes = 16) =>
  db.run(
    `update sessions set authenticated_at = authenticated_at - $2::int * interval '1 minute' where user_id = $1`,
    [account.id, minutes],
  )

const change = ({ token }: Pick<Account, 'token'>, { id }: Pick<Account, 'id'>, body: object) =>
  service.call('updateUser', { token, params: { user_id: id }, body })

const remove = ({ token }: Pick<Account, 'token'>, { id }: Pick<Account, 'id'>) =>
  service.call('deleteUser', { token, params: { user_id: id } })

const prove = ({ token }: Pick<Account, 'token'>, body: object) =>
  service.call('reauthenticate', { token, body })

/** The token of the newest mail about a changed address. */
const undoToken = (): string => service.emailChanges.at(-1)?.undoToken ?? ''

const undo = (token: string) => service.call('undoEmailChange', { body: { token } })

t.test('an access token whose session signed in a while ago', async (t) => {
  t.test('changes no address, deletes no account, and keeps neither by refreshing', async (t) => {
    const account = await another()
    await age(account)
    const { body } = await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
    })
    for (const token of [account.token, body.access_token]) {
      t.match(await change({ token }, account, newAddress()), required)
      const { username } = account.user
      const whole = { username, ...newAddress(), display_name: username, role: 'member' }
      const params = { user_id: account.id }
      t.match(await service.call('replaceUser', { token, params, body: whole }), required)
      t.match(await remove({ token }, account), required)
    }
    const { body: user } = await service.expect('getCurrentUser', 200, { token: account.token })
    t.strictSame(user, account.user)
  })

  t.test('still changes everything else, and the address into itself', async (t) => {
    const account = await another()
    await age(account)
    const body = { display_name: 'Renamed', email: account.email.toUpperCase() }
    t.match(await change(account, account, body), { status: 200 })
  })

  t.test('of an administrator does none of it to others, and sets no password', async (t) => {
    const boss = await another()
    await service.expect('updateUser', 200, {
      token: admin.token,
      params: { user_id: boss.id },
      body: { role: 'admin' },
    })
    const target = await another()
    await age(boss)
    t.match(await change(boss, target, newAddress()), required)
    t.match(await remove(boss, target), required)
    const request = { params: { user_id: target.id }, body: { password: 'another password' } }
    t.match(await service.call('setUserPassword', { token: boss.token, ...request }), required)
    await signIn(target)
    t.match(await prove(boss, { password: boss.password }), { status: 204 })
    t.match(await change(boss, target, newAddress()), { status: 200 })
    await service.expect('setUserPassword', 204, { token: boss.token, ...request })
    t.match(await remove(boss, target), { status: 204 })
  })

  t.test('is refused only what it may do at all', async (t) => {
    const [account, other] = [await another(), await another()]
    await age(account)
    t.match(await change(account, other, newAddress()), { status: 403, body: { code: 'forbidden' } })
    t.match(await remove(account, { id: unknownId }), { status: 404 })
    const request = { token: account.token, params: { user_id: account.id }, body: newAddress() }
    const stale = { 'if-match': '"99"' }
    t.match(await service.call('updateUser', { ...request, headers: stale }), required, 'before 412')
  })
})

t.test('a session that signed in just now changes its address and deletes its account', async (t) => {
  const account = await another()
  await age(account, 14)
  t.match(await change(account, account, newAddress()), { status: 200 })
  t.match(await remove(account, account), { status: 204 })
})

t.test('current_password', async (t) => {
  t.test('200: it changes the address with it, by PATCH and by PUT', async (t) => {
    const account = await another()
    const { password: current_password } = account
    await age(account)
    t.match(await change(account, account, { ...newAddress(), current_password }), { status: 200 })
    await age(account)
    const { username } = account.user
    const whole = { username, ...newAddress(), display_name: username, role: 'member', current_password }
    const request = { token: account.token, params: { user_id: account.id }, body: whole }
    const { body } = await service.expect('replaceUser', 200, request)
    t.equal(body.email, whole.email)
  })

  t.test('422: a wrong one is refused, needed or not, and changes nothing', async (t) => {
    const account = await another()
    for (const minutes of [0, 16]) {
      await age(account, minutes)
      const refused = await change(account, account, { ...newAddress(), current_password: 'wrong' })
      t.match(refused, {
        status: 422,
        body: { code: 'wrong_password', errors: [{ pointer: '/current_password' }] },
      })
    }
    const { username } = account.user
    const whole = { username, ...newAddress(), display_name: username, role: 'member' }
    const params = { user_id: account.id }
    const body = { ...whole, current_password: 'wrong' }
    await service.expect('replaceUser', 422, { token: account.token, params, body })
    const { body: user } = await service.expect('getCurrentUser', 200, { token: account.token })
    t.equal(user.version, 1)
    t.match((await auditOf(account)).at(-1), { action: 'proof.failed', actor_id: account.id })
  })

  t.test('403: from an API token', async (t) => {
    const account = await another()
    const { token } = await createApiToken(account, { scopes: ['users:write'] })
    const body = { display_name: 'Robot', current_password: account.password }
    t.match(await change({ token }, account, body), { status: 403, body: { code: 'insufficient_scope' } })
  })

  t.test('400: what can be no password', async (t) => {
    for (const current_password of ['', null, 7, 'x'.repeat(257)]) {
      t.match(await change(admin, admin, { current_password }), isInvalid('/current_password'))
    }
  })
})

t.test('reauthenticate', async (t) => {
  t.test('204 with the password: this session has proved it, and no other, on every instance', async (t) => {
    const account = await another()
    const other = { token: (await signIn(account)).access_token }
    await age(account)
    const beside = await startBeside(t, service)
    await beside.expect('getCurrentUser', 200, { token: account.token })
    t.match(await prove(account, { password: account.password }), { status: 204, body: null })
    t.match(await change(other, account, newAddress()), required)
    const params = { user_id: account.id }
    await beside.expect('updateUser', 200, { token: account.token, params, body: newAddress() })
    t.match(
      (await auditOf(account)).find(({ action }) => action === 'session.reauthenticated'),
      { actor_id: account.id },
    )
  })

  t.test('204 with a code, once', async (t) => {
    const account = await registerGuarded(unique())
    await age(account)
    const code = account.codeAt(1)
    t.match(await change(account, account, newAddress()), required)
    t.match(await prove(account, { code }), { status: 204 })
    t.match(await change(account, account, newAddress()), { status: 200 })
    t.match(await prove(account, { code }), { status: 422, body: { code: 'wrong_code' } })
  })

  t.test('400', async (t) => {
    for (const body of [{}, { password: 'one', code: '123456' }]) {
      t.match(await prove(admin, body), { status: 400, body: { code: 'invalid_request' } })
    }
    for (const [body, pointer] of [
      [{ password: '' }, '/password'],
      [{ password: null }, '/password'],
      [{ password: 'x'.repeat(257) }, '/password'],
      [{ code: '12345' }, '/code'],
      [{ code: 123456 }, '/code'],
      [{ totp: '123456' }, '/totp'],
    ] as const) {
      t.match(await prove(admin, body), isInvalid(pointer))
    }
  })

  t.test('401', async () => {
    await service.expect('reauthenticate', 401, { body: { password: 'any' } })
  })

  t.test('403: an API token', async (t) => {
    const { token } = await createApiToken(admin, { scopes: ['users:write'] })
    t.match(await prove({ token }, { password: admin.password }), {
      status: 403,
      body: { code: 'insufficient_scope' },
    })
  })

  t.test('409: a code without a second factor', async (t) => {
    t.match(await prove(admin, { code: '123456' }), {
      status: 409,
      body: { code: 'second_factor_not_enrolled' },
    })
  })

  t.test('422 for a wrong password and a wrong code, and 429 after too many', async (t) => {
    const account = await registerGuarded(unique())
    await age(account)
    for (const body of [{ password: 'wrong' }, { code: wrongCodeOf(account.codeAt) }]) {
      const replies = []
      for (let attempt = 0; attempt < 12; attempt += 1) replies.push(await prove(account, body))
      const statuses = countStatuses(replies)
      t.strictSame(Object.keys(statuses), ['422', '429'], JSON.stringify(body))
      t.match(await change(account, account, newAddress()), required)
    }
  })

  refusesBodies(t, service, 'reauthenticate', { token: admin.token })
})

t.test('a change of address', async (t) => {
  t.test('is told to the address before it, with a token whose hash alone is stored', async (t) => {
    const account = await another()
    const before = service.emailChanges.length
    const { email } = newAddress()
    t.match(await change(account, account, { email }), { status: 200 })
    t.equal(service.emailChanges.length, before + 1)
    t.match(service.emailChanges.at(-1), { to: account.email, undoToken: /^twu_[\w-]{43}$/ })
    const rows = await db.run('select token::text as text from one_time_tokens token', [])
    t.notOk(rows.some(({ text }) => String(text).includes(undoToken().slice(4))))
    t.match(await change(account, account, { display_name: 'No mail' }), { status: 200 })
    t.match(await change(account, account, { email: email.toUpperCase() }), { status: 200 })
    t.equal(service.emailChanges.length, before + 1, 'and a change of anything else is not')
  })

  t.test('by an administrator is told without a token, and the address is free', async (t) => {
    const account = await another()
    t.match(await change(admin, account, newAddress()), { status: 200 })
    t.strictSame(service.emailChanges.at(-1), { to: account.email, undoToken: null })
    const body = { username: unique(), email: account.email, password: 'a good password' }
    await service.expect('register', 201, { body })
  })

  t.test('keeps the address for its user, until the change cannot be undone any more', async (t) => {
    const [account, other] = [await another(), await another()]
    await service.expect('updateUser', 200, {
      token: account.token,
      params: { user_id: account.id },
      body: newAddress(),
    })
    const { email } = account
    const taken = { status: 409, body: { code: 'email_taken' } }
    const newcomer = { username: unique(), email, password: 'a good password' }
    t.match(await service.call('register', { body: newcomer }), taken)
    t.match(await service.call('createUser', { token: admin.token, body: newcomer }), taken)
    t.match(await change(other, other, { email }), taken)
    t.match(await change(account, account, { email }), { status: 200 }, 'who may take it back')
    t.match(await change(account, account, newAddress()), { status: 200 })
    await db.run(`update one_time_tokens set expires_at = now() - interval '1 ms' where user_id = $1`, [
      account.id,
    ])
    await service.expect('register', 201, { body: newcomer })
  })

  t.test('and a registration at once do not take the address from its user', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const account = await another()
      const newcomer = { username: unique(), email: account.email, password: 'a good password' }
      const [changed, ...registered] = await Promise.all([
        change(account, account, newAddress()),
        service.call('register', { body: newcomer }),
        service.call('register', { body: { ...newcomer, username: unique() } }),
      ])
      t.equal(changed.status, 200)
      t.strictSame(countStatuses(registered), { 409: 2 })
      t.match(await undo(undoToken()), { status: 200 })
    }
  })

  t.test('429: more than five in a day, also at once', async (t) => {
    const account = await another()
    const replies = await Promise.all(Array.from({ length: 8 }, () => change(account, account, newAddress())))
    t.strictSame(countStatuses(replies), { 200: 5, 429: 3 })
    const { username } = account.user
    const whole = { username, ...newAddress(), display_name: username, role: 'member' }
    const request = { token: account.token, params: { user_id: account.id }, body: whole }
    const refused = await service.call('replaceUser', request)
    t.equal(refused.status, 429)
    t.ok(Number(refused.headers.get('retry-after')) > 0)
  })
})

t.test('undoEmailChange', async (t) => {
  /** An account whose address somebody else has changed. */
  const takenOver = async () => {
    const account = await another()
    await service.expect('updateUser', 200, {
      token: account.token,
      params: { user_id: account.id },
      body: newAddress(),
    })
    return { account, token: undoToken() }
  }

  t.test('200: the address is back, all access has ended, and a new password is set', async (t) => {
    const { account, token } = await takenOver()
    const { refresh_token: refreshToken } = await signIn({
      ...account,
      email: (await service.expect('getCurrentUser', 200, { token: account.token })).body.email ?? '',
    })
    const program = await createApiToken(account, { scopes: ['users:read'] })
    t.equal(await statusOf(program.token), 200)
    const { body, headers } = await service.expect('undoEmailChange', 200, { body: { token } })
    t.match(body, { email: account.email, reset_token: /^twx_/, reset_token_expires_in: 1_800 })
    t.equal(headers.get('cache-control'), 'no-store')
    for (const dead of [account.token, program.token]) t.equal(await statusOf(dead), 401)
    t.equal(await refreshStatusOf(refreshToken), 401)
    const { email, password } = account
    t.match(await service.call('login', { body: { email, password } }), { status: 401 })
    const reset = { token: body.reset_token, new_password: 'another password' }
    await service.expect('resetPassword', 204, { body: reset })
    t.equal((await signIn({ email, password: 'another password' })).user.id, account.id)
    t.match(
      (await auditOf(account)).map(({ action }) => action),
      /user.email_change_undone/,
    )
  })

  t.test('200: a later change by the one who made the first is undone with it', async (t) => {
    const { account, token } = await takenOver()
    t.match(await change(account, account, newAddress()), { status: 200 })
    const theirs = undoToken()
    t.not(theirs, token)
    const { body } = await service.expect('undoEmailChange', 200, { body: { token } })
    t.equal(body.email, account.email)
    t.match(await undo(theirs), { status: 401 }, 'and cannot be restored')
  })

  t.test('200: a password that was changed or set does not void it', async () => {
    const { account, token } = await takenOver()
    const passwords = { current_password: account.password, new_password: 'the thief has it' }
    await service.expect('changePassword', 204, { token: account.token, body: passwords })
    await service.expect('undoEmailChange', 200, { body: { token } })
  })

  const isRefused = async (t: Test, token: string): Promise<void> =>
    void t.match(await undo(token), { status: 401, body: { code: 'invalid_credentials' } }, token.slice(0, 8))

  t.test('401: used, expired, unknown, or of another kind', async (t) => {
    const { account, token } = await takenOver()
    await service.expect('undoEmailChange', 200, { body: { token } })
    await isRefused(t, token)
    const late = await takenOver()
    await db.run(`update one_time_tokens set expires_at = now() - interval '1 ms' where user_id = $1`, [
      late.account.id,
    ])
    await isRefused(t, late.token)
    await service.expect('forgotPassword', 202, { body: { email: account.email } })
    const resetToken = service.mails.at(-1)?.token ?? ''
    for (const wrong of [`twu_${'A'.repeat(43)}`, 'x', resetToken, account.refreshToken, account.token])
      await isRefused(t, wrong)
    const gone = await takenOver()
    t.match(await remove(gone.account, gone.account), { status: 204 })
    await isRefused(t, gone.token)
  })

  t.test('once, of many at once', async (t) => {
    const { token } = await takenOver()
    const replies = await Promise.all(Array.from({ length: 5 }, () => undo(token)))
    t.strictSame(countStatuses(replies), { 200: 1, 401: 4 })
  })

  t.test('400', async (t) => {
    for (const token of ['', null, 7, 'x'.repeat(513), 'a\u0000'])
      t.match(await service.call('undoEmailChange', { body: { token } }), isInvalid('/token'))
  })

  refusesBodies(t, service, 'undoEmailChange')
})

t.test('without a mail server an address is changed all the same', async (t) => {
  const silent = await startService(t, { openMailer: noMailer })
  const { token, id, user } = await silent.register('first')
  const request = { token, params: { user_id: id }, body: newAddress() }
  const { body } = await silent.expect('updateUser', 200, request)
  t.not(body.email, user.email)
})
