import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { hashResetToken, hashUndoToken, newResetToken, newUndoToken } from '../../src/auth/opaque-tokens.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, type Outcomes, racesOn } from '../fixture/races.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'

/** Writes to users that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db })
const first = await service.register('first')
const { setRole } = accountActions(service, first)
const { createProject, setMember } = projectActions(service)

let registered = 0
const register = (): Promise<Account> => {
  registered += 1
  return service.register(`user${registered}`)
}

const registerAdmin = async (): Promise<Account> => {
  const account = await register()
  await setRole(account, 'admin')
  return account
}

const rowOf = ({ id }: Account): string => held(`users where id = '${id}'`)
const disabling = ({ id }: Account): string => `update users set is_disabled = true where id = '${id}'`
const deletion = ({ id }: Account): string =>
  `update users set deleted_at = now(), role = 'member' where id = '${id}'`

interface Write {
  readonly request: (user: Account) => Omit<Call, 'token' | 'params'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const unversioned = {
  'the caller is demoted': 403,
  'the caller is disabled': 401,
  'the caller is deleted': 401,
  'the user is deleted': 404,
} as const

const outcomes = { ...unversioned, 'the user is changed': 412 } as const
const needsProof = { 'the caller proved their identity long ago': 403 } as const
const proven = { ...outcomes, ...needsProof } as const
const headers = { 'if-match': '"1"' }

const writes: { readonly [Operation in OperationId]?: readonly Write[] } = {
  updateUser: [
    { request: () => ({ body: { display_name: 'Changed' }, headers }), outcomes },
    { request: ({ email }) => ({ body: { email: `new-${email}` }, headers }), outcomes: proven },
    { request: () => ({ body: { role: 'admin' }, headers }), outcomes },
    { request: () => ({ body: { is_disabled: true }, headers }), outcomes },
    { request: () => ({ body: { task_quota: 5 }, headers }), outcomes },
  ],
  replaceUser: [
    {
      request: ({ user: { username }, email }) => ({
        body: { username, email, display_name: 'Replaced', role: 'member' },
        headers,
      }),
      outcomes,
    },
  ],
  deleteUser: [{ request: () => ({ headers }), outcomes: proven }],
  setUserPassword: [
    {
      request: () => ({ body: { password: 'another good one' } }),
      outcomes: { ...unversioned, ...needsProof },
    },
  ],
}

for (const [operation, requests] of Object.entries(writes))
  for (const { request, outcomes: expected } of requests)
    t.test(`${operation} waits`, (t) =>
      expectOutcomes(t, expected, {
        prepare: async () => {
          const [caller, user] = [await registerAdmin(), await register()]
          return { caller, user, ids: { caller: caller.id, person: user.id } }
        },
        send: ({ caller, user }) =>
          service.call(operation as OperationId, {
            token: caller.token,
            params: { user_id: user.id },
            ...request(user),
          }),
      }),
    )

t.test('an administrator who was demoted meanwhile demotes nobody', async (t) => {
  const [one, another] = [await registerAdmin(), await registerAdmin()]
  const demote = ({ token }: Account, { id }: Account) =>
    service.call('updateUser', { token, params: { user_id: id }, body: { role: 'member' } })
  const hold = [rowOf(one), rowOf(another)]
  const replies = await resultAfter(t, { hold, waiting: 2 }, () =>
    Promise.all([demote(one, another), demote(another, one)]),
  )
  t.strictSame(
    replies.map(({ status }) => status).toSorted((one, other) => one - other),
    [200, 403],
  )
})

t.test('what users do to their own account waits', async (t) => {
  const newPassword = { current_password: '', new_password: 'another good one' }
  const own: readonly (readonly [OperationId, (user: Account) => object, object])[] = [
    [
      'changePassword',
      ({ password }) => ({ ...newPassword, current_password: password }),
      { disabled: 401, deleted: 401, reset: 422 },
    ],
    ['updateNotificationSettings', () => ({ mail_digest: 'daily' }), { disabled: 401, deleted: 401 }],
  ]
  const meanwhile: Readonly<Record<string, (user: Account) => string>> = {
    disabled: disabling,
    deleted: deletion,
    reset: ({ id }) => `update users set password_hash = '' where id = '${id}'`,
  }
  for (const [operation, body, statuses] of own)
    for (const [what, status] of Object.entries(statuses)) {
      const user = await register()
      const race = { hold: [rowOf(user)], change: meanwhile[what]?.(user) ?? '' }
      const reply = await resultAfter(t, race, () =>
        service.call(operation, { token: user.token, body: body(user) }),
      )
      t.equal(reply.status, status, `${operation}: ${what}`)
    }
})

t.test('a digest is due by the time zone that the user has then', async (t) => {
  const user = await register()
  const change = `update users set time_zone = 'Pacific/Auckland' where id = '${user.id}'`
  await resultAfter(t, { hold: [rowOf(user)], change }, () =>
    service.expect('updateNotificationSettings', 200, { token: user.token, body: { mail_digest: 'daily' } }),
  )
  const [row] = await db.run(
    `select (digest_due_at at time zone 'Pacific/Auckland')::time::text as due from notification_settings where user_id = $1`,
    [user.id],
  )
  t.equal(row?.due, '08:00:00')
})

t.test('a token is used once', async (t) => {
  const tokens = {
    reset_password: [newResetToken, hashResetToken, 'resetPassword', { new_password: 'a good one' }],
    undo_email: [newUndoToken, hashUndoToken, 'undoEmailChange', {}],
  } as const
  for (const [purpose, [create, hashOf, operation, fields]] of Object.entries(tokens)) {
    const user = await register()
    const { token } = create()
    await db.run(
      `insert into one_time_tokens (hash, purpose, user_id, email, expires_at) values ($1, $2, $3, $4, now() + interval '1 hour')`,
      [hashOf(token), purpose, user.id, purpose === 'undo_email' ? `old-${user.email}` : null],
    )
    const change = `delete from one_time_tokens where user_id = '${user.id}'`
    const reply = await resultAfter(t, { hold: [rowOf(user)], change }, () =>
      service.call(operation, { body: { token, ...fields } }),
    )
    t.equal(reply.status, 401, purpose)
  }
})

t.test('no password can be reset through the address that a user has left meanwhile', async (t) => {
  const user = await register()
  const change = `update users set email = 'new-${user.email}' where id = '${user.id}'`
  await resultAfter(t, { hold: [rowOf(user)], change }, () =>
    service.expect('forgotPassword', 202, { body: { email: user.email } }),
  )
  t.strictSame(
    service.mails.filter(({ to }) => to === user.email),
    [],
  )
})

t.test('a notification that the recipient no longer sees is not marked', async (t) => {
  const member = await register()
  const project = await createProject(first)
  await setMember(first, project, member, 'editor')
  const body = { title: 'A task', project_id: project.id }
  const { id: task } = (await service.expect('createTask', 201, { token: first.token, body })).body
  const id = newId()
  await db.run(
    `insert into notifications (id, user_id, reason, event_id, task_id) values ($1, $2, 'comment', $1, $3)`,
    [id, member.id, task],
  )
  const change = memberRemoved({ project: project.id, user: member.id })
  const reply = await resultAfter(t, { hold: [held(`notifications where id = '${id}'`)], change }, () =>
    service.call('updateNotification', {
      token: member.token,
      params: { notification_id: id },
      body: { is_read: true },
    }),
  )
  t.equal(reply.status, 404)
})

/** Creations by a member of a project. */
const creations: readonly (readonly [
  OperationId,
  (ids: { readonly project: string; readonly task: string }) => Call,
])[] = [
  ['createProject', () => ({ body: { name: 'A project' } })],
  ['createSection', ({ project }) => ({ params: { project_id: project }, body: { name: 'A section' } })],
  ['createComment', ({ task }) => ({ params: { task_id: task }, body: { body: 'A comment' } })],
]

/** A project that an account edits, with a task. */
const prepareProject = async (editor: Account) => {
  const project = await createProject(first)
  await setMember(first, project, editor, 'editor')
  const body = { title: 'A task', project_id: project.id }
  const { id: task } = (await service.expect('createTask', 201, { token: first.token, body })).body
  return { project: project.id, task }
}

for (const [operation, request] of creations) {
  t.test(`${operation} waits for the deletion or disabling of its caller`, async (t) => {
    for (const change of [disabling, deletion])
      for (const headers of [{}, { 'idempotency-key': 'once' }]) {
        const caller = await register()
        const call = { ...request(await prepareProject(caller)), token: caller.token, headers }
        const reply = await resultAfter(t, { hold: [rowOf(caller)], change: change(caller) }, () =>
          service.call(operation, call),
        )
        t.equal(reply.status, 401)
      }
  })

  if (operation === 'createProject') continue
  t.test(`${operation} and the deletion of its caller do not deadlock`, async (t) => {
    const deadlocks = async () => {
      const [row] = await db.run(
        'select deadlocks from pg_stat_database where datname = current_database()',
        [],
      )
      return row?.deadlocks
    }
    const caller = await register()
    const ids = await prepareProject(caller)
    const before = await deadlocks()
    const hold = [held(`projects where id = '${ids.project}'`)]
    const [created, deleted] = await resultAfter(t, { hold, waiting: 2 }, () =>
      Promise.all([
        service.call(operation, { token: caller.token, ...request(ids) }),
        service.call('deleteUser', { token: first.token, params: { user_id: caller.id } }),
      ]),
    )
    t.ok([201, 401].includes(created.status))
    t.equal(deleted.status, 204)
    t.equal(await deadlocks(), before)
  })
}
