import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { loadContract } from '../../src/contract/contract.ts'
import { accountActions, from, sessionIdOf } from '../fixture/accounts.ts'
import { authenticator, secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { finishedExport } from '../fixture/exports.ts'
import { projectActions } from '../fixture/projects.ts'
import { codeOf, logoutClaims, sendLogout, sharedIssuer } from '../fixture/issuer.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { taskActions, unknownId } from '../fixture/tasks.ts'

type AuditEvent = components['schemas']['AuditEvent']
type AuditAction = components['schemas']['AuditAction']

const service = await startService(t, { config: { trustProxy: ['127.0.0.1'] } })
const { db } = service.deps
const admin = await service.register('admin')
const member = await service.register('member')
const { createApiToken } = accountActions(service, admin)
const { addComment, attachFile, createTask } = taskActions(service)
const { createProject } = projectActions(service)
const { challengeOf, guard, registerGuarded } = secondFactorActions(service)

const list = async (query: Call['query'] = {}) =>
  (await service.expect('listAuditEvents', 200, { token: admin.token, query })).body

const idsOf = async (query: Call['query']): Promise<string[]> => (await list(query)).items.map(({ id }) => id)

/** Who acted on whom, and with which credential. */
type Identities = Pick<AuditEvent, 'actor_id' | 'user_id' | 'session_id' | 'token_id'>

const nobody: Identities = { actor_id: null, user_id: null, session_id: null, token_id: null }

/** A user on their own account, in their session. */
const own = ({ id, token }: Pick<Account, 'id' | 'token'>): Identities => ({
  actor_id: id,
  user_id: id,
  session_id: sessionIdOf(token),
  token_id: null,
})

/** The administrator on the account of somebody else. */
const byAdmin = (user_id: string): Identities => ({ ...own(admin), user_id })

const client = { 'user-agent': 'Curious/2.0', ...from('203.0.113.7') }

const newFeed = async () => {
  const body = { name: 'A feed', kind: 'todo' }
  const created = await service.expect('createFeed', 201, { token: member.token, body, headers: client })
  return { params: { feed_id: created.body.id } }
}

/** Actions of commands only. `test/admin.ts` has them. */
const shellActions = ['import.created', 'import.run'] as const satisfies readonly AuditAction[]

/** Causes an event, by action. Resolves to the identities that the event must have. */
const causes: Readonly<
  Record<Exclude<AuditAction, (typeof shellActions)[number]>, () => Promise<Identities>>
> = {
  async 'user.registered'() {
    const body = { username: 'newcomer', email: 'newcomer@example.com', password: 'long enough' }
    const answer = await service.expect('register', 201, { body, headers: client })
    return own({ id: answer.body.user.id, token: answer.body.access_token })
  },
  async 'user.created'() {
    const body = { username: 'invited', email: 'invited@example.com', password: 'long enough' }
    const created = await service.expect('createUser', 201, { token: admin.token, body, headers: client })
    return byAdmin(created.body.id)
  },
  async 'export.requested'() {
    const { id: user_id } = await service.register('exported')
    await service.expect('createExport', 201, { token: admin.token, body: { user_id }, headers: client })
    return byAdmin(user_id)
  },
  async 'export.downloaded'() {
    const { id: user_id } = await service.register('downloaded')
    const { id: export_id } = await finishedExport(service, admin, { user_id })
    await service.call('downloadExport', { token: admin.token, params: { export_id }, headers: client })
    return byAdmin(user_id)
  },
  async 'user.deleted'() {
    const { id: user_id } = await service.register('removed')
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id }, headers: client })
    return byAdmin(user_id)
  },
  async 'user.email_changed'() {
    const ada = await service.register('moving')
    await service.expect('updateUser', 200, {
      token: ada.token,
      params: { user_id: ada.id },
      body: { email: 'moved@example.com' },
      headers: client,
    })
    return own(ada)
  },
  async 'user.email_change_undone'() {
    const ada = await service.register('moved-by-another')
    const change = { params: { user_id: ada.id }, body: { email: 'another@example.com' } }
    await service.expect('updateUser', 200, { token: ada.token, ...change })
    const body = { token: service.emailChanges.at(-1)?.undoToken }
    await service.expect('undoEmailChange', 200, { body, headers: client })
    return { ...nobody, actor_id: ada.id, user_id: ada.id }
  },
  async 'user.role_changed'() {
    const { id: user_id } = await service.register('promoted')
    const request = { token: admin.token, params: { user_id }, body: { role: 'admin' }, headers: client }
    await service.expect('updateUser', 200, request)
    return byAdmin(user_id)
  },
  async 'user.disabled'() {
    const { id: user_id } = await service.register('disabled')
    const request = { token: admin.token, params: { user_id }, body: { is_disabled: true }, headers: client }
    await service.expect('updateUser', 200, request)
    return byAdmin(user_id)
  },
  async 'user.enabled'() {
    const { id: user_id } = await service.register('enabled')
    const request = { token: admin.token, params: { user_id }, headers: client }
    await service.expect('updateUser', 200, { ...request, body: { is_disabled: true } })
    await service.expect('updateUser', 200, { ...request, body: { is_disabled: false } })
    return byAdmin(user_id)
  },
  async 'user.quota_changed'() {
    const { id: user_id } = await service.register('limited')
    const request = { token: admin.token, params: { user_id }, body: { task_quota: 5 }, headers: client }
    await service.expect('updateUser', 200, request)
    return byAdmin(user_id)
  },
  async 'sign_in.succeeded'() {
    const { id, email, password } = member
    const { body } = await service.expect('login', 200, { body: { email, password }, headers: client })
    return own({ id, token: body.access_token })
  },
  async 'sign_in.failed'() {
    const body = { email: member.email, password: 'wrong' }
    await service.expect('login', 401, { body, headers: client })
    return { ...nobody, user_id: member.id }
  },
  async 'sign_in.challenged'() {
    const { id, email, password } = await registerGuarded('cautious')
    await service.expect('login', 401, { body: { email, password }, headers: client })
    return { ...nobody, user_id: id }
  },
  async 'session.ended'() {
    const ada = await service.register('leaving')
    await service.expect('logout', 204, { token: ada.token, headers: client })
    return own(ada)
  },
  async 'session.all_ended'() {
    const ada = await service.register('leaving-everywhere')
    const query = { everywhere: true }
    await service.expect('logout', 204, { token: ada.token, query, headers: client })
    return own(ada)
  },
  async 'session.reauthenticated'() {
    const ada = await service.register('proving')
    const body = { password: ada.password }
    await service.expect('reauthenticate', 204, { token: ada.token, body, headers: client })
    return own(ada)
  },
  async 'session.token_reused'() {
    const { id, token, refreshToken } = await service.register('robbed')
    const body = { refresh_token: refreshToken }
    const { body: next } = await service.expect('refreshToken', 200, { body })
    await service.expect('refreshToken', 200, { body: { refresh_token: next.refresh_token } })
    await service.expect('refreshToken', 401, { body, headers: client })
    return { ...nobody, user_id: id, session_id: sessionIdOf(token) }
  },
  async 'password.changed'() {
    const ada = await service.register('changing')
    const body = { current_password: ada.password, new_password: 'another good one' }
    await service.expect('changePassword', 204, { token: ada.token, body, headers: client })
    return own(ada)
  },
  async 'password.reset_requested'() {
    const { id, email } = await service.register('forgetful')
    await service.expect('forgotPassword', 202, { body: { email }, headers: client })
    return { ...nobody, user_id: id }
  },
  async 'password.reset'() {
    const { id, email } = await service.register('reset')
    await service.expect('forgotPassword', 202, { body: { email } })
    const body = { token: service.mails.at(-1)?.token, new_password: 'another good one' }
    await service.expect('resetPassword', 204, { body, headers: client })
    return { ...nobody, actor_id: id, user_id: id }
  },
  async 'password.set'() {
    const { id: user_id } = await service.register('helped')
    const request = { params: { user_id }, body: { password: 'another good one' }, headers: client }
    await service.expect('setUserPassword', 204, { token: admin.token, ...request })
    return byAdmin(user_id)
  },
  async 'proof.failed'() {
    const body = { current_password: 'wrong', new_password: 'another good one' }
    await service.expect('changePassword', 422, { token: member.token, body, headers: client })
    return own(member)
  },
  async 'api_token.created'() {
    const body = { name: 'a program', scopes: ['tasks:read'] }
    const created = await service.expect('createApiToken', 201, {
      token: member.token,
      body,
      headers: client,
    })
    return { ...own(member), token_id: created.body.id }
  },
  async 'api_token.revoked'() {
    const { id: token_id } = await createApiToken(member)
    await service.expect('revokeApiToken', 204, {
      token: member.token,
      params: { token_id },
      headers: client,
    })
    return { ...own(member), token_id }
  },
  async 'feed.created'() {
    await newFeed()
    return own(member)
  },
  async 'feed.token_rotated'() {
    const feed = await newFeed()
    await service.expect('rotateFeedToken', 200, { token: member.token, ...feed, headers: client })
    return own(member)
  },
  async 'feed.revoked'() {
    const feed = await newFeed()
    await service.expect('deleteFeed', 204, { token: member.token, ...feed, headers: client })
    return own(member)
  },
  async 'second_factor.enrolled'() {
    const ada = await service.register('enrolling')
    const body = { password: ada.password }
    await service.expect('enrollSecondFactor', 201, { token: ada.token, body, headers: client })
    return own(ada)
  },
  async 'second_factor.confirmed'() {
    const ada = await service.register('confirming')
    const { token, password } = ada
    const { body } = await service.expect('enrollSecondFactor', 201, { token, body: { password } })
    const code = authenticator(body.secret)()
    await service.expect('confirmSecondFactor', 200, { token, body: { code }, headers: client })
    return own(ada)
  },
  async 'second_factor.disabled'() {
    const ada = await registerGuarded('disabling')
    const body = { password: ada.password, code: ada.codeAt() }
    await service.expect('disableSecondFactor', 204, { token: ada.token, body, headers: client })
    return own(ada)
  },
  async 'session.ended_by_provider'() {
    const body = await codeOf(service, 'sign_in', {
      sub: 'gone',
      email: 'gone@example.com',
      email_verified: true,
    })
    const { access_token: token, user } = (await service.expect('exchangeOidcCode', 200, { body })).body
    const issuer = await sharedIssuer()
    const logout = await issuer.sign({ typ: 'logout+jwt' }, logoutClaims(issuer, { sub: 'gone' }))
    await sendLogout(service, logout, { headers: client })
    return { ...nobody, user_id: user.id, session_id: sessionIdOf(token) }
  },
  async 'identity.linked'() {
    const ada = await service.register('linking')
    const body = await codeOf(service, 'link', { sub: 'linking' })
    await service.expect('linkIdentity', 201, { token: ada.token, body, headers: client })
    return own(ada)
  },
  async 'identity.unlinked'() {
    const { token, ...ada } = await service.register('unlinking')
    const body = await codeOf(service, 'link', { sub: 'unlinking' })
    const { id: identity_id } = (await service.expect('linkIdentity', 201, { token, body })).body
    const unlinking = { token, params: { identity_id }, headers: client }
    await service.expect('unlinkIdentity', 204, unlinking)
    return own({ ...ada, token })
  },
  async 'task.read_by_admin'() {
    const { id: task_id } = await createTask(member)
    await service.expect('getTask', 200, { token: admin.token, params: { task_id }, headers: client })
    return byAdmin(member.id)
  },
  async 'attachment.read_by_admin'() {
    const attach_id = await attachFile(member, (await createTask(member)).id)
    const request = { token: admin.token, params: { attach_id }, headers: client }
    await service.expect('downloadAttachment', 200, request)
    return byAdmin(member.id)
  },
  async 'comment.read_by_admin'() {
    const comment_id = await addComment(member, (await createTask(member)).id)
    const request = { token: admin.token, params: { comment_id }, headers: client }
    await service.expect('getComment', 200, request)
    return byAdmin(member.id)
  },
  async 'project.read_by_admin'() {
    const { id: project_id } = await createProject(member, 'Private')
    await service.expect('getProject', 200, { token: admin.token, params: { project_id }, headers: client })
    return { ...own(admin), user_id: null }
  },
}

const { 'x-extensible-enum': actions } = (
  loadContract().document.components as { schemas: { AuditAction: { 'x-extensible-enum': AuditAction[] } } }
).schemas.AuditAction

t.test('listAuditEvents', async (t) => {
  t.strictSame(new Set(actions), new Set([...Object.keys(causes), ...shellActions]))
  for (const [action, cause] of Object.entries(causes)) {
    t.test(`200: ${action}`, async (t) => {
      const identities = await cause()
      const [event] = (await list({ limit: 1 })).items
      if (event === undefined) throw new Error('No event was recorded')
      const { id, created_at, request_id, ...rest } = event
      t.strictSame(rest, { action, ...identities, address: '203.0.113.7', user_agent: 'Curious/2.0' })
      t.match(request_id, /^[0-9a-f-]{36}$/)
      t.not(request_id, id)
      t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    })
  }

  t.test('200: attempts with an unknown email address name no user', async (t) => {
    const body = { email: 'nobody@example.com', password: 'wrong' }
    const { request_id } = (await service.expect('login', 401, { body, headers: client })).body
    const [event] = (await list({ limit: 1 })).items
    t.match(event, { action: 'sign_in.failed', ...nobody, request_id })
    await service.expect('forgotPassword', 202, { body: { email: body.email } })
    t.match((await list({ limit: 1 })).items, [{ action: 'password.reset_requested', ...nobody }])
  })

  t.test('200: at most 20 failed sign-ins are recorded per network', async (t) => {
    const attempt = (index: number, headers: Readonly<Record<string, string>>) => {
      const body = { email: `stranger-${index}@example.com`, password: 'wrong' }
      return service.expect('login', 401, { body, headers })
    }
    for (let index = 0; index < 30; index += 1) await attempt(index, from('203.0.113.99'))
    for (let index = 30; index < 32; index += 1) await attempt(index, from('203.0.113.100'))
    const { items } = await list({ limit: 100 })
    const count = (address: string) => items.filter((event) => event.address === address).length
    t.equal(count('203.0.113.99'), 20)
    t.equal(count('203.0.113.100'), 2)
  })

  t.test('200: a wrong code names the account and no actor', async (t) => {
    const ada = await guard(await service.register('guessed'))
    const body = { challenge: await challengeOf(ada), code: wrongCodeOf(ada.codeAt) }
    const { request_id } = (await service.expect('completeLogin', 401, { body, headers: client })).body
    const events = (await list({ limit: 1 })).items
    t.match(events, [{ action: 'sign_in.failed', ...nobody, user_id: ada.id, request_id }])
    const right = { body: { ...body, code: ada.codeAt() } }
    const signedIn = (await service.expect('completeLogin', 200, right)).body
    const [succeeded] = (await list({ limit: 1 })).items
    t.match(succeeded, { action: 'sign_in.succeeded', ...own({ id: ada.id, token: signedIn.access_token }) })
  })

  t.test('200: a request that sets a password and resets a second factor records two events', async (t) => {
    const { id: user_id } = await registerGuarded('locked-out')
    const body = { password: 'another good one', reset_second_factor: true }
    await service.expect('setUserPassword', 204, { token: admin.token, params: { user_id }, body })
    const events = (await list({ user_id, limit: 2 })).items
    t.match(events.map(({ action }) => action).toSorted(), ['password.set', 'second_factor.disabled'])
    for (const event of events) t.match(event, byAdmin(user_id))
    t.equal(events[0]?.request_id, events[1]?.request_id)
  })

  t.test('200: events name the API token that acted', async (t) => {
    const { id: token_id, token } = await createApiToken(admin, { scopes: ['users:write'] })
    const body = { username: 'by-program', email: 'by-program@example.com', password: 'long enough' }
    const created = await service.expect('createUser', 201, { token, body })
    const identities = { actor_id: admin.id, user_id: created.body.id, session_id: null, token_id }
    t.match((await list({ limit: 1 })).items, [{ action: 'user.created', ...identities }])
  })

  t.test('200: no event for reads of own or assigned tasks', async (t) => {
    const own = await createTask(admin)
    const assigned = await createTask(member, { assignee_id: admin.id })
    const attach_id = await attachFile(member, assigned.id)
    const comment_id = await addComment(member, assigned.id)
    const before = await idsOf({ limit: 200 })
    for (const { token } of [admin, member]) {
      await service.expect('getTask', 200, { token, params: { task_id: assigned.id } })
      await service.expect('downloadAttachment', 200, { token, params: { attach_id } })
      await service.expect('getComment', 200, { token, params: { comment_id } })
      await service.expect('listTaskComments', 200, { token, params: { task_id: assigned.id } })
    }
    await service.expect('getTask', 200, { token: admin.token, params: { task_id: own.id } })
    await service.expect('getTask', 404, { token: admin.token, params: { task_id: unknownId } })
    const { id: task_id } = await createTask(member)
    const refused = { token: admin.token, params: { task_id }, body: {}, headers: { 'if-match': '"0"' } }
    await service.expect('updateTask', 412, refused)
    t.strictSame(await idsOf({ limit: 200 }), before)
  })

  t.test('200: an event for an embedded resource that only the role shows', async (t) => {
    const { token } = admin
    const project = await createProject(member, 'Embedded')
    const { id: parent_id } = await createTask(member, { project_id: project.id })
    const { id: task_id } = await createTask(member, { parent_id, assignee_id: admin.id })
    const { id: other_task_id } = await createTask(member)
    const relation = { task_id, kind: 'blocks', other_task_id }
    await service.expect('addTaskRelation', 204, { token: member.token, params: relation })
    const before = (await idsOf({ limit: 1 }))[0]
    const reads = [
      ['getTask', 'parent'],
      ['getTask', 'project'],
      ['getTask', 'owner'],
      ['listTaskRelations', 'task'],
    ] as const
    for (const [operation, expand] of reads) {
      const request = { token, params: { task_id }, query: { expand } }
      const { headers } = await service.expect(operation, 200, request)
      const [event] = (await list({ limit: 1 })).items
      const request_id = headers.get('x-request-id')
      if (expand === 'owner') t.not(event?.request_id, request_id)
      else
        t.match(event, { action: 'task.read_by_admin', actor_id: admin.id, user_id: member.id, request_id })
    }
    await service.expect('getTask', 200, { token, params: { task_id } })
    await service.expect('listTaskRelations', 200, { token, params: { task_id } })
    t.equal((await idsOf({ limit: 4 }))[3], before, 'none for the task alone')
  })

  t.test('200: an administrator’s own list embeds only what they see without their role', async (t) => {
    const { token } = admin
    const { id: parent_id } = await createTask(member)
    const { id } = await createTask(member, { parent_id, assignee_id: admin.id })
    const embedded = async (query: NonNullable<Call['query']>) => {
      const { items } = (await service.expect('listTasks', 200, { token, query })).body
      return items.find((task) => task.id === id)
    }
    const own = await embedded({ expand: 'parent' })
    t.strictSame([own?.parent_id, own !== undefined && 'parent' in own], [parent_id, false])
    t.equal((await embedded({ expand: 'parent', all: true }))?.parent?.id, parent_id)
  })

  t.test('200: no event for requests that are rejected or change nothing', async (t) => {
    const before = await idsOf({ limit: 200 })
    const { token, id: user_id, email } = member
    const params = { user_id }
    await service.expect('updateUser', 200, { token, params, body: { email, display_name: 'Member' } })
    await service.expect('updateUser', 200, { token: admin.token, params, body: { role: 'member' } })
    await service.expect('updateUser', 403, { token, params, body: { role: 'admin' } })
    await service.expect('deleteUser', 403, { token, params: { user_id: admin.id } })
    await service.expect('revokeSession', 404, { token, params: { session_id: sessionIdOf(admin.token) } })
    await service.expect('revokeApiToken', 404, { token, params: { token_id: unknownId } })
    await service.expect('setUserPassword', 403, { token, params, body: { password: 'long enough' } })
    t.strictSame(await idsOf({ limit: 200 }), before)
  })

  t.test('200: the user agent is cut to 512 characters', async (t) => {
    const body = { email: 'nobody@example.com', password: 'wrong' }
    await service.call('login', { body, headers: { 'user-agent': 'x'.repeat(600) } })
    t.equal((await list({ limit: 1 })).items[0]?.user_agent, 'x'.repeat(512))
  })

  t.test('200: filters, with several values and combined', async (t) => {
    const { items } = await list({ limit: 200 })
    const expected = (keep: (event: AuditEvent) => boolean): string[] =>
      items.filter(keep).map(({ id }) => id)
    const [first, second] = ['sign_in.failed', 'user.registered'] as const
    const middle = items[10]?.created_at ?? ''
    const early = items[20]?.created_at ?? ''
    const cases: readonly (readonly [NonNullable<Call['query']>, (event: AuditEvent) => boolean])[] = [
      [{ actor_id: admin.id }, (event) => event.actor_id === admin.id],
      [
        { actor_id: [admin.id, member.id.toUpperCase()] },
        ({ actor_id }) => actor_id === admin.id || actor_id === member.id,
      ],
      [{ user_id: member.id }, (event) => event.user_id === member.id],
      [{ user_id: [member.id, admin.id] }, ({ user_id }) => user_id === admin.id || user_id === member.id],
      [{ action: first }, ({ action }) => action === first],
      [{ action: [first, second] }, ({ action }) => action === first || action === second],
      [{ created_after: middle }, ({ created_at }) => created_at >= middle],
      [{ created_before: middle }, ({ created_at }) => created_at < middle],
      [
        { created_after: early, created_before: middle },
        ({ created_at }) => created_at >= early && created_at < middle,
      ],
      [
        { actor_id: member.id, user_id: member.id, action: ['proof.failed', first], created_before: middle },
        (event) =>
          event.actor_id === member.id &&
          event.user_id === member.id &&
          ['proof.failed', first].includes(event.action) &&
          event.created_at < middle,
      ],
      [{ user_id: unknownId }, () => false],
    ]
    for (const [query, keep] of cases) {
      const found = await list({ ...(query as object), limit: 200, include_total: true })
      t.strictSame(
        found.items.map(({ id }) => id),
        expected(keep),
        JSON.stringify(query),
      )
      t.equal(found.total, expected(keep).length)
    }
    const page = await list({ action: first, limit: 2 })
    const rest = await list({ action: first, limit: 200, cursor: page.next_cursor ?? '' })
    t.strictSame(
      [...page.items, ...rest.items].map(({ id }) => id),
      expected(({ action }) => action === first),
    )
  })

  t.test('events are deleted after the configured number of days', async (t) => {
    const before = await idsOf({ limit: 200 })
    const [expired, old] = before
    const age = (id: string | undefined, days: number) =>
      db.run(
        `update audit_events set created_at = now() - make_interval(days => $2::int, hours => 1) where id = $1`,
        [id, days],
      )
    await age(expired, 30)
    await age(old, 29)
    await runJobs({ ...jobDepsOf(service), auditDays: 30 })
    t.strictSame((await idsOf({ limit: 200 })).toSorted(), before.filter((id) => id !== expired).toSorted())
  })
})
