import t from 'tap'
import { accountActions } from '../fixture/accounts.ts'
import { openStream } from '../fixture/event-stream.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Administrators disable users without deleting anything. */

const service = await startService(t)
const { createTask } = taskActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const pathOf = ({ id }: Pick<Account, 'id'>) => ({ user_id: id })

const setDisabled = (account: Pick<Account, 'id'>, is_disabled: boolean) =>
  service.expect('updateUser', 200, { token: admin.token, params: pathOf(account), body: { is_disabled } })

const isForbidden = { status: 403, body: { code: 'forbidden' } }
const isDisabledAccount = { status: 403, body: { code: 'account_disabled' } }

t.test('disabling ends sessions, blocks sign-in and API tokens, and can be undone', async (t) => {
  const ada = await service.register('ada')
  const { email, password } = ada
  const task = await createTask(ada)
  const { token } = await createApiToken(ada, { scopes: ['tasks:read'] })
  const stream = await openStream(t, service, { token: ada.token })
  const getTask = { params: { task_id: task.id } }

  const { body: disabled } = await setDisabled(ada, true)
  t.equal(disabled.is_disabled, true)
  t.equal(disabled.version, ada.user.version + 1)
  t.ok(await stream.ended)
  for (const ended of [ada.token, token]) await service.expect('getTask', 401, { token: ended, ...getTask })
  await service.expect('refreshToken', 401, { body: { refresh_token: ada.refreshToken } })
  t.match(await service.call('login', { body: { email, password } }), isDisabledAccount)
  t.match(
    await service.call('login', { body: { email, password: 'wrong' } }),
    { status: 401 },
    'a wrong password does not reveal that the account is disabled',
  )

  const { body: enabled } = await setDisabled(ada, false)
  t.equal(enabled.is_disabled, false)
  await service.expect('getTask', 200, { token, ...getTask })
  await service.expect('getTask', 401, { token: ada.token, ...getTask })
  const { body: session } = await service.expect('login', 200, { body: { email, password } })
  t.match((await service.expect('getTask', 200, { token: session.access_token, ...getTask })).body, {
    id: task.id,
    version: task.version,
  })
})

t.test('a disabled user cannot sign in with a new password', async (t) => {
  const ada = await service.register('resetting')
  const { email } = ada
  await setDisabled(ada, true)
  await service.expect('forgotPassword', 202, { body: { email } })
  const token = service.mails.at(-1)?.token
  const password = 'another horse battery'
  await service.expect('resetPassword', 204, { body: { token, new_password: password } })
  t.match(await service.call('login', { body: { email, password } }), isDisabledAccount)
})

t.test('403: only administrators can disable users, and not themselves', async (t) => {
  const ada = await service.register('member')
  const body = { is_disabled: true }
  for (const [by, target] of [
    [ada, ada],
    [ada, admin],
    [admin, admin],
  ] as const)
    t.match(await service.call('updateUser', { token: by.token, params: pathOf(target), body }), isForbidden)
  const same = { is_disabled: false }
  t.match(await service.call('updateUser', { token: ada.token, params: pathOf(ada), body: same }), {
    status: 200,
  })
})

t.test('replaceUser: accepts what GET returns; without is_disabled, the user stays disabled', async (t) => {
  const ada = await service.register('replaced')
  const { body } = await setDisabled(ada, true)
  const replace = (change: object) =>
    service.expect('replaceUser', 200, {
      token: admin.token,
      params: pathOf(ada),
      body: { ...body, ...change },
    })
  const { body: renamed } = await replace({ display_name: 'Ada' })
  t.match(renamed, { display_name: 'Ada', is_disabled: true })
  const { username, email, role } = renamed
  const params = pathOf(ada)
  const fields = { username, email, role, display_name: 'Lovelace' }
  const kept = await service.expect('replaceUser', 200, { token: admin.token, params, body: fields })
  t.equal(kept.body.is_disabled, true)
})
