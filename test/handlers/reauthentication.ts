import t, { type Test } from 'tap'
import { noMailer } from '../../src/mail/mailer.ts'
import { accountActions, startBeside } from '../fixture/accounts.ts'
import { secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, unknownId } from '../fixture/tasks.ts'

/** Operations that need a recent sign-in, reauthentication, and undoing a change of the email address. */

const service = await startService(t)
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, createApiToken, refreshStatusOf, signIn, statusOf } = accountActions(service, admin)
const { registerGuarded } = secondFactorActions(service)

const reauthenticationRequired = { status: 403, body: { code: 'reauthentication_required' } }

let count = 0
const uniqueName = (): string => `u${(count += 1)}`
const newAccount = (): Promise<Account> => service.register(uniqueName())
const newEmail = () => ({ email: `${uniqueName()}@example.com` })

/** Moves the last authentication of a user's sessions into the past. */
const ageSessions = (account: Pick<Account, 'id'>, minutes = 16) =>
  db.run(
    `update sessions set authenticated_at = authenticated_at - $2::int * interval '1 minute' where user_id = $1`,
    [account.id, minutes],
  )

const updateUser = ({ token }: Pick<Account, 'token'>, { id }: Pick<Account, 'id'>, body: object) =>
  service.call('updateUser', { token, params: { user_id: id }, body })

const deleteUser = ({ token }: Pick<Account, 'token'>, { id }: Pick<Account, 'id'>) =>
  service.call('deleteUser', { token, params: { user_id: id } })

const reauthenticate = ({ token }: Pick<Account, 'token'>, body: object) =>
  service.call('reauthenticate', { token, body })

/** The undo token of the last email about a changed address. */
const lastUndoToken = (): string => service.emailChanges.at(-1)?.undoToken ?? ''

const undo = (token: string) => service.call('undoEmailChange', { body: { token } })

t.test('a session that authenticated more than 15 minutes ago', async (t) => {
  t.test('cannot change the email address or delete the account, not even after a refresh', async (t) => {
    const account = await newAccount()
    await ageSessions(account)
    const { body } = await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
    })
    for (const token of [account.token, body.access_token]) {
      t.match(await updateUser({ token }, account, newEmail()), reauthenticationRequired)
      const { username } = account.user
      const replacement = { username, ...newEmail(), display_name: username, role: 'member' }
      const params = { user_id: account.id }
      t.match(
        await service.call('replaceUser', { token, params, body: replacement }),
        reauthenticationRequired,
      )
      t.match(await deleteUser({ token }, account), reauthenticationRequired)
    }
    const { body: user } = await service.expect('getCurrentUser', 200, { token: account.token })
    t.strictSame(user, account.user)
  })

  t.test('can change other fields, and send the same email address in upper case', async (t) => {
    const account = await newAccount()
    await ageSessions(account)
    const body = { display_name: 'Renamed', email: account.email.toUpperCase() }
    t.match(await updateUser(account, account, body), { status: 200 })
  })

  t.test('of an administrator: cannot change the email or password of users, or delete them', async (t) => {
    const otherAdmin = await newAccount()
    await service.expect('updateUser', 200, {
      token: admin.token,
      params: { user_id: otherAdmin.id },
      body: { role: 'admin' },
    })
    const target = await newAccount()
    await ageSessions(otherAdmin)
    t.match(await updateUser(otherAdmin, target, newEmail()), reauthenticationRequired)
    t.match(await deleteUser(otherAdmin, target), reauthenticationRequired)
    const request = { params: { user_id: target.id }, body: { password: 'another password' } }
    t.match(
      await service.call('setUserPassword', { token: otherAdmin.token, ...request }),
      reauthenticationRequired,
    )
    await signIn(target)
    t.match(await reauthenticate(otherAdmin, { password: otherAdmin.password }), { status: 204 })
    t.match(await updateUser(otherAdmin, target, newEmail()), { status: 200 })
    await service.expect('setUserPassword', 204, { token: otherAdmin.token, ...request })
    t.match(await deleteUser(otherAdmin, target), { status: 204 })
  })

  t.test('gets 403 for missing permissions and 404 first, 412 only after reauthentication', async (t) => {
    const [account, other] = [await newAccount(), await newAccount()]
    await ageSessions(account)
    t.match(await updateUser(account, other, newEmail()), { status: 403, body: { code: 'forbidden' } })
    t.match(await deleteUser(account, { id: unknownId }), { status: 404 })
    const request = { token: account.token, params: { user_id: account.id }, body: newEmail() }
    const otherVersion = { 'if-match': '"99"' }
    t.match(
      await service.call('updateUser', { ...request, headers: otherVersion }),
      reauthenticationRequired,
      'before 412',
    )
  })
})

t.test('a recently authenticated session can change the email address and delete the account', async (t) => {
  const account = await newAccount()
  await ageSessions(account, 14)
  t.match(await updateUser(account, account, newEmail()), { status: 200 })
  t.match(await deleteUser(account, account), { status: 204 })
})

t.test('current_password', async (t) => {
  t.test('200: PATCH and PUT can change the email address with it', async (t) => {
    const account = await newAccount()
    const { password: current_password } = account
    await ageSessions(account)
    t.match(await updateUser(account, account, { ...newEmail(), current_password }), { status: 200 })
    await ageSessions(account)
    const { username } = account.user
    const replacement = { username, ...newEmail(), display_name: username, role: 'member', current_password }
    const request = { token: account.token, params: { user_id: account.id }, body: replacement }
    const { body } = await service.expect('replaceUser', 200, request)
    t.equal(body.email, replacement.email)
  })

  t.test('422 for a wrong password, even if none is needed: nothing changes', async (t) => {
    const account = await newAccount()
    for (const minutes of [0, 16]) {
      await ageSessions(account, minutes)
      const refused = await updateUser(account, account, { ...newEmail(), current_password: 'wrong' })
      t.match(refused, {
        status: 422,
        body: { code: 'wrong_password', errors: [{ pointer: '/current_password' }] },
      })
    }
    const { username } = account.user
    const replacement = { username, ...newEmail(), display_name: username, role: 'member' }
    const params = { user_id: account.id }
    const body = { ...replacement, current_password: 'wrong' }
    await service.expect('replaceUser', 422, { token: account.token, params, body })
    const { body: user } = await service.expect('getCurrentUser', 200, { token: account.token })
    t.equal(user.version, 1)
    t.match((await auditOf(account)).at(-1), { action: 'proof.failed', actor_id: account.id })
  })

  t.test('403 with an API token', async (t) => {
    const account = await newAccount()
    const { token } = await createApiToken(account, { scopes: ['users:write'] })
    const body = { display_name: 'Robot', current_password: account.password }
    t.match(await updateUser({ token }, account, body), { status: 403, body: { code: 'insufficient_scope' } })
  })
})

t.test('reauthenticate', async (t) => {
  t.test('204 with the password: reauthenticates this session only, on every instance', async (t) => {
    const account = await newAccount()
    const other = { token: (await signIn(account)).access_token }
    await ageSessions(account)
    const otherInstance = await startBeside(t, service)
    await otherInstance.expect('getCurrentUser', 200, { token: account.token })
    t.match(await reauthenticate(account, { password: account.password }), { status: 204, body: null })
    t.match(await updateUser(other, account, newEmail()), reauthenticationRequired)
    const params = { user_id: account.id }
    await otherInstance.expect('updateUser', 200, { token: account.token, params, body: newEmail() })
    t.match(
      (await auditOf(account)).find(({ action }) => action === 'session.reauthenticated'),
      { actor_id: account.id },
    )
  })

  t.test('204 with a code, which works once', async (t) => {
    const account = await registerGuarded(uniqueName())
    await ageSessions(account)
    const code = account.codeAt(1)
    t.match(await updateUser(account, account, newEmail()), reauthenticationRequired)
    t.match(await reauthenticate(account, { code }), { status: 204 })
    t.match(await updateUser(account, account, newEmail()), { status: 200 })
    t.match(await reauthenticate(account, { code }), { status: 422, body: { code: 'wrong_code' } })
  })

  t.test('400 for no proof, and for two proofs', async (t) => {
    for (const body of [{}, { password: 'one', code: '123456' }]) {
      t.match(await reauthenticate(admin, body), { status: 400, body: { code: 'invalid_request' } })
    }
  })

  t.test('409 for a code without a second factor', async (t) => {
    t.match(await reauthenticate(admin, { code: '123456' }), {
      status: 409,
      body: { code: 'second_factor_not_enrolled' },
    })
  })

  t.test('422 for a wrong password or code, 429 after too many', async (t) => {
    const account = await registerGuarded(uniqueName())
    await ageSessions(account)
    for (const body of [{ password: 'wrong' }, { code: wrongCodeOf(account.codeAt) }]) {
      const replies = []
      for (let attempt = 0; attempt < 12; attempt += 1) replies.push(await reauthenticate(account, body))
      const statuses = countStatuses(replies)
      t.strictSame(Object.keys(statuses), ['422', '429'], JSON.stringify(body))
      t.match(await updateUser(account, account, newEmail()), reauthenticationRequired)
    }
  })
})

t.test('a change of the email address', async (t) => {
  t.test('sends an undo token to the previous address, and stores only its hash', async (t) => {
    const account = await newAccount()
    const before = service.emailChanges.length
    const { email } = newEmail()
    t.match(await updateUser(account, account, { email }), { status: 200 })
    t.equal(service.emailChanges.length, before + 1)
    t.match(service.emailChanges.at(-1), { to: account.email, undoToken: /^twu_[\w-]{43}$/ })
    const rows = await db.run('select token::text as text from one_time_tokens token', [])
    t.notOk(rows.some(({ text }) => String(text).includes(lastUndoToken().slice(4))))
    t.match(await updateUser(account, account, { display_name: 'No mail' }), { status: 200 })
    t.match(await updateUser(account, account, { email: email.toUpperCase() }), { status: 200 })
    t.equal(service.emailChanges.length, before + 1, 'no email about other changes')
  })

  t.test('by an administrator sends no undo token, and frees the previous address', async (t) => {
    const account = await newAccount()
    t.match(await updateUser(admin, account, newEmail()), { status: 200 })
    t.strictSame(service.emailChanges.at(-1), { to: account.email, undoToken: null })
    const body = { username: uniqueName(), email: account.email, password: 'a good password' }
    await service.expect('register', 201, { body })
  })

  t.test('reserves the previous address for its user until the undo token expires', async (t) => {
    const [account, other] = [await newAccount(), await newAccount()]
    await service.expect('updateUser', 200, {
      token: account.token,
      params: { user_id: account.id },
      body: newEmail(),
    })
    const { email } = account
    const taken = { status: 409, body: { code: 'email_taken' } }
    const newcomer = { username: uniqueName(), email, password: 'a good password' }
    t.match(await service.call('register', { body: newcomer }), taken)
    t.match(await service.call('createUser', { token: admin.token, body: newcomer }), taken)
    t.match(await updateUser(other, other, { email }), taken)
    t.match(await updateUser(account, account, { email }), { status: 200 }, 'its user can change it back')
    t.match(await updateUser(account, account, newEmail()), { status: 200 })
    await db.run(`update one_time_tokens set expires_at = now() - interval '1 ms' where user_id = $1`, [
      account.id,
    ])
    await service.expect('register', 201, { body: newcomer })
  })

  t.test('reserves the previous address against concurrent registrations', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const account = await newAccount()
      const newcomer = { username: uniqueName(), email: account.email, password: 'a good password' }
      const [changed, ...registered] = await Promise.all([
        updateUser(account, account, newEmail()),
        service.call('register', { body: newcomer }),
        service.call('register', { body: { ...newcomer, username: uniqueName() } }),
      ])
      t.equal(changed.status, 200)
      t.strictSame(countStatuses(registered), { 409: 2 })
      t.match(await undo(lastUndoToken()), { status: 200 })
    }
  })

  t.test('429 for more than five in a day, even at the same time', async (t) => {
    const account = await newAccount()
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => updateUser(account, account, newEmail())),
    )
    t.strictSame(countStatuses(replies), { 200: 5, 429: 3 })
    const { username } = account.user
    const replacement = { username, ...newEmail(), display_name: username, role: 'member' }
    const request = { token: account.token, params: { user_id: account.id }, body: replacement }
    const refused = await service.call('replaceUser', request)
    t.equal(refused.status, 429)
    t.ok(Number(refused.headers.get('retry-after')) > 0)
  })
})

t.test('undoEmailChange', async (t) => {
  /** An account whose email address an attacker has changed, and the undo token. */
  const takenOver = async () => {
    const account = await newAccount()
    await service.expect('updateUser', 200, {
      token: account.token,
      params: { user_id: account.id },
      body: newEmail(),
    })
    return { account, token: lastUndoToken() }
  }

  t.test('200: restores the email address, ends all access, and allows a new password', async (t) => {
    const { account, token } = await takenOver()
    const { refresh_token: refreshToken } = await signIn({
      ...account,
      email: (await service.expect('getCurrentUser', 200, { token: account.token })).body.email ?? '',
    })
    const apiToken = await createApiToken(account, { scopes: ['users:read'] })
    t.equal(await statusOf(apiToken.token), 200)
    const { body, headers } = await service.expect('undoEmailChange', 200, { body: { token } })
    t.match(body, { email: account.email, reset_token: /^twx_/, reset_token_expires_in: 1_800 })
    t.equal(headers.get('cache-control'), 'no-store')
    for (const revoked of [account.token, apiToken.token]) t.equal(await statusOf(revoked), 401)
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

  t.test('200: undoes a later change of the email address, too', async (t) => {
    const { account, token } = await takenOver()
    t.match(await updateUser(account, account, newEmail()), { status: 200 })
    const laterToken = lastUndoToken()
    t.not(laterToken, token)
    const { body } = await service.expect('undoEmailChange', 200, { body: { token } })
    t.equal(body.email, account.email)
    t.match(await undo(laterToken), { status: 401 }, 'the undo token of the later change is void')
  })

  t.test('200: the token is valid after a change of the password', async () => {
    const { account, token } = await takenOver()
    const passwords = { current_password: account.password, new_password: 'the thief has it' }
    await service.expect('changePassword', 204, { token: account.token, body: passwords })
    await service.expect('undoEmailChange', 200, { body: { token } })
  })

  const expectRefused = async (t: Test, token: string): Promise<void> =>
    void t.match(await undo(token), { status: 401, body: { code: 'invalid_credentials' } }, token.slice(0, 8))

  t.test('401 for a used, expired, unknown or other token, and after deletion of the account', async (t) => {
    const { account, token } = await takenOver()
    await service.expect('undoEmailChange', 200, { body: { token } })
    await expectRefused(t, token)
    const expired = await takenOver()
    await db.run(`update one_time_tokens set expires_at = now() - interval '1 ms' where user_id = $1`, [
      expired.account.id,
    ])
    await expectRefused(t, expired.token)
    await service.expect('forgotPassword', 202, { body: { email: account.email } })
    const resetToken = service.mails.at(-1)?.token ?? ''
    for (const wrong of [`twu_${'A'.repeat(43)}`, 'x', resetToken, account.refreshToken, account.token])
      await expectRefused(t, wrong)
    const deleted = await takenOver()
    t.match(await deleteUser(deleted.account, deleted.account), { status: 204 })
    await expectRefused(t, deleted.token)
  })

  t.test('200 for one of several requests at the same time, 401 for the others', async (t) => {
    const { token } = await takenOver()
    const replies = await Promise.all(Array.from({ length: 5 }, () => undo(token)))
    t.strictSame(countStatuses(replies), { 200: 1, 401: 4 })
  })
})

t.test('the email address can be changed without a mail server', async (t) => {
  const silent = await startService(t, { openMailer: noMailer })
  const { token, id, user } = await silent.register('first')
  const request = { token, params: { user_id: id }, body: newEmail() }
  const { body } = await silent.expect('updateUser', 200, request)
  t.not(body.email, user.email)
})
