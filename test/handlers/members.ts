import t from 'tap'
import type { ProjectRole } from '../../src/domain/shared/project-roles.ts'
import { readChanges } from '../fixture/changes.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'

const service = await startService(t)
const { createProject, setMember, removeMember } = projectActions(service)
const { createTask } = taskActions(service)
const admin = await service.register('admin')
const [ada, grace, edsger, stranger] = [
  await service.register('ada'),
  await service.register('grace'),
  await service.register('edsger'),
  await service.register('stranger'),
]

interface Project {
  readonly id: string
}

const paramsOf = (project: Project, user: { readonly id: string }) => ({
  project_id: project.id,
  user_id: user.id,
})

const readMember = async ({ token }: Account, project: Project, user: Account) => {
  const { body, headers } = await service.expect('getProjectMember', 200, {
    token,
    params: paramsOf(project, user),
  })
  return { member: body, etag: headers.get('etag') ?? '' }
}

const rolesIn = async ({ token }: Account, project: Project): Promise<Record<string, ProjectRole>> => {
  const { body } = await service.expect('listProjectMembers', 200, {
    token,
    params: { project_id: project.id },
  })
  return Object.fromEntries(body.items.map(({ user_id, role }) => [user_id, role]))
}

const leave = ({ id, token }: Account, project: Project) =>
  service.call('removeProjectMember', { token, params: paramsOf(project, { id }) })

const isLastManager = { status: 409, body: { code: 'last_manager' } }

t.test('setProjectMember', async (t) => {
  t.test('201: adds a member, who can then see the project', async (t) => {
    const project = await createProject(ada)
    const params = paramsOf(project, grace)
    const request = { token: ada.token, params, body: { role: 'viewer' } }
    const { body, headers } = await service.expect('setProjectMember', 201, request)
    const { created_at, ...rest } = body
    t.strictSame(rest, { user_id: grace.id, role: 'viewer', direct_role: 'viewer', version: 1, revision: 1 })
    t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    t.equal(headers.get('location'), `/projects/${project.id}/members/${grace.id}`)
    const read = await readMember(grace, project, grace)
    t.strictSame(read.member, body)
    t.equal(read.etag, headers.get('etag'))
  })

  t.test('200: changes the role, and accepts what getProjectMember returns', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, grace, 'viewer')
    const request = { token: ada.token, params: paramsOf(project, grace) }
    const { body } = await service.expect('setProjectMember', 200, { ...request, body: { role: 'editor' } })
    t.match(body, { role: 'editor', direct_role: 'editor', version: 2 })
    t.strictSame((await service.expect('setProjectMember', 200, { ...request, body })).body, body)
    t.strictSame(await rolesIn(grace, project), { [ada.id]: 'manager', [grace.id]: 'editor' })
  })

  t.test('200: a lower role applies at once', async () => {
    const project = await createProject(ada)
    const task = await createTask(ada, { project_id: project.id })
    const change = { token: grace.token, params: { task_id: task.id }, body: { title: 'Changed' } }
    await setMember(ada, project, grace, 'editor')
    await service.expect('updateTask', 200, change)
    await setMember(ada, project, grace, 'commenter')
    await service.expect('updateTask', 403, change)
  })

  t.test('201, 204: in an archived project', async (t) => {
    const project = await createProject(ada)
    await service.expect('archiveProject', 200, { token: ada.token, params: { project_id: project.id } })
    t.match(await setMember(ada, project, grace, 'viewer'), { role: 'viewer' })
    t.equal((await leave(grace, project)).status, 204)
  })

  t.test('409: the last manager cannot be demoted', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, grace, 'editor')
    const params = paramsOf(project, ada)
    for (const token of [ada.token, admin.token]) {
      const reply = await service.call('setProjectMember', { token, params, body: { role: 'editor' } })
      t.match(reply, isLastManager)
    }
    t.match((await readMember(ada, project, ada)).member, { role: 'manager', version: 1 })
  })

  t.test('403, 409: of two managers who demote each other concurrently, one succeeds', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const project = await createProject(ada)
      await setMember(ada, project, grace, 'manager')
      const demote = ({ token }: Account, other: Account) =>
        service.call('setProjectMember', {
          token,
          params: paramsOf(project, other),
          body: { role: 'viewer' },
        })
      const replies = await Promise.all([demote(ada, grace), demote(grace, ada)])
      const counts = countStatuses(replies)
      t.equal(counts[200], 1)
      t.equal((counts[409] ?? 0) + (counts[403] ?? 0), 1, 'rejected as the last manager, or as a viewer')
      const roles = Object.values(await rolesIn(ada, project))
      t.strictSame(roles.toSorted(), ['manager', 'viewer'])
    }
  })

  t.test('412: If-Match and version', async (t) => {
    const project = await createProject(ada)
    const put = (list: string, role: ProjectRole, body: object = {}) =>
      service.call('setProjectMember', {
        token: ada.token,
        params: paramsOf(project, grace),
        headers: { 'if-match': list },
        body: { role, ...body },
      })
    for (const list of ['*', '"0"', '"1"'])
      t.equal((await put(list, 'viewer')).status, 412, `${list}: no member`)
    await setMember(ada, project, grace, 'viewer')
    const { etag } = await readMember(ada, project, grace)
    t.equal((await put('"2"', 'editor')).status, 412)
    t.equal((await put(etag, 'editor')).status, 200)
    t.equal((await put(etag, 'viewer')).status, 412)
    t.equal((await put('*', 'viewer', { version: 2 })).status, 200)
    t.equal((await put('*', 'editor', { version: 2 })).status, 412)
  })

  t.test('412: If-None-Match: * does not change the role of a member', async (t) => {
    const project = await createProject(ada)
    const put = (user: Account, list: string) =>
      service.call('setProjectMember', {
        token: ada.token,
        params: paramsOf(project, user),
        headers: { 'if-none-match': list },
        body: { role: 'viewer' },
      })
    await setMember(ada, project, grace, 'manager')
    t.match(await put(grace, '*'), { status: 412, body: { code: 'precondition_failed' } })
    t.equal((await put(ada, '*')).status, 412, 'also if that would violate another rule')
    t.match((await readMember(ada, project, grace)).member, { role: 'manager', version: 1 })
    t.equal((await put(edsger, '*')).status, 201)
    const { etag } = await readMember(ada, project, edsger)
    t.equal((await put(edsger, etag)).status, 412)
    t.equal((await put(edsger, '"7"')).status, 200)
  })

  t.test('201, 412: of two requests that create a member concurrently, one succeeds', async (t) => {
    for (const [index, role] of (['manager', 'viewer', 'manager', 'viewer'] as const).entries()) {
      const project = await createProject(ada)
      const other = index % 2 === 0 ? 'viewer' : 'manager'
      const create = (one: ProjectRole) =>
        service.call('setProjectMember', {
          token: ada.token,
          params: paramsOf(project, grace),
          headers: { 'if-none-match': '*' },
          body: { role: one },
        })
      const replies = await Promise.all([create(role), create(other)])
      t.strictSame(countStatuses(replies), { 201: 1, 412: 1 })
      const created = replies.find(({ status }) => status === 201)
      t.match((await readMember(ada, project, grace)).member, created?.body ?? {})
    }
  })
})

t.test('removeProjectMember', async (t) => {
  t.test('204: ends the access of the member', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, grace, 'manager')
    await removeMember(ada, project, grace)
    const request = { token: grace.token, params: paramsOf(project, grace) }
    await service.expect('getProjectMember', 404, request)
    await service.expect('removeProjectMember', 404, request)
    await service.expect('listProjectMembers', 404, request)
    t.strictSame(await rolesIn(ada, project), { [ada.id]: 'manager' })
    await service.expect('removeProjectMember', 404, { ...request, token: ada.token })
  })

  t.test('204: cursors, the change feed and API tokens lose access', async (t) => {
    const project = await createProject(ada)
    const member = await service.register('removed')
    await setMember(ada, project, member, 'editor')
    const tasks = [
      await createTask(ada, { project_id: project.id }),
      await createTask(ada, { project_id: project.id }),
    ]
    const fields = { name: 'a program', scopes: ['projects:read', 'tasks:read'] }
    const { body: program } = await service.expect('createApiToken', 201, {
      token: member.token,
      body: fields,
    })
    const { token } = program
    const { body: page } = await service.expect('listTasks', 200, { token, query: { limit: 1 } })
    const before = await readChanges(service, program)
    t.equal(before.changed.length, 2)

    await removeMember(ada, project, member)
    await service.expect('getProject', 404, { token, params: { project_id: project.id } })
    for (const { id } of tasks) await service.expect('getTask', 404, { token, params: { task_id: id } })
    const next = { token, query: { limit: 1, cursor: page.next_cursor ?? '' } }
    t.strictSame((await service.expect('listTasks', 200, next)).body.items, [])
    const after = await readChanges(service, program, { since: before.next_cursor })
    t.strictSame(after.changed, [])
    t.strictSame(after.deleted.toSorted(), tasks.map(({ id }) => id).toSorted())
  })

  t.test('204: an assignee can still see the task', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, grace, 'editor')
    const task = await createTask(ada, { project_id: project.id, assignee_id: grace.id })
    t.equal((await leave(grace, project)).status, 204)
    const { body } = await service.expect('getTask', 200, {
      token: grace.token,
      params: { task_id: task.id },
    })
    t.match(body, { id: task.id, project_id: project.id })
  })

  t.test('204: members of every role can leave', async (t) => {
    const project = await createProject(ada)
    for (const role of ['viewer', 'commenter', 'editor', 'manager'] as const) {
      await setMember(ada, project, grace, role)
      t.equal((await leave(grace, project)).status, 204, role)
    }
  })

  t.test('409: the last manager cannot leave', async (t) => {
    const project = await createProject(ada)
    t.match(await leave(ada, project), isLastManager)
    await setMember(ada, project, grace, 'editor')
    t.match(await leave(ada, project), isLastManager)
    await setMember(ada, project, grace, 'manager')
    t.equal((await leave(ada, project)).status, 204)
    t.match(await leave(grace, project), isLastManager)
  })

  t.test('409: of two managers who leave concurrently, one succeeds', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const project = await createProject(ada)
      await setMember(ada, project, grace, 'manager')
      const replies = await Promise.all([leave(ada, project), leave(grace, project)])
      t.strictSame(countStatuses(replies), { 204: 1, 409: 1 })
    }
  })
})

t.test('listProjectMembers', async (t) => {
  const project = await createProject(ada)
  await setMember(ada, project, grace, 'viewer')
  await setMember(ada, project, edsger, 'editor')
  const params = { project_id: project.id }
  const list = async (query: Record<string, string | number | boolean | readonly string[]> = {}) =>
    (await service.expect('listProjectMembers', 200, { token: grace.token, params, query })).body
  const idsOf = async (query: Parameters<typeof list>[0]) =>
    (await list(query)).items.map((one) => one.user_id)

  t.test('200: newest first', async (t) => {
    t.strictSame(await idsOf({}), [edsger.id, grace.id, ada.id])
  })

  t.test('200: filters by role and name', async (t) => {
    t.strictSame(await idsOf({ role: ['viewer', 'manager'] }), [grace.id, ada.id])
    t.strictSame(await idsOf({ role: ['commenter'] }), [])
    t.strictSame(await idsOf({ q: 'DSG' }), [edsger.id])
    t.strictSame(await idsOf({ q: 'a', role: ['viewer'] }), [grace.id])
    t.strictSame(await idsOf({ q: 'stranger' }), [])
  })

  t.test('200: expanded users; 403 without users:read', async (t) => {
    const { items } = await list({ expand: 'user' })
    t.strictSame(
      items.map(({ user }) => [user?.username, user?.email]),
      [
        ['edsger', null],
        ['grace', 'grace@example.com'],
        ['ada', null],
      ],
    )
    const body = { name: 'a program', scopes: ['projects:read'] }
    const { token } = (await service.expect('createApiToken', 201, { token: grace.token, body })).body
    await service.expect('listProjectMembers', 200, { token, params })
    await service.expect('listProjectMembers', 403, { token, params, query: { expand: 'user' } })
    await service.expect('listProjectMembers', 400, { token, params, query: { expand: 'team' } })
  })

  t.test('404: the next page for a member who has left', async () => {
    await setMember(ada, project, stranger, 'viewer')
    const { body } = await service.expect('listProjectMembers', 200, {
      token: stranger.token,
      params,
      query: { limit: 1 },
    })
    await leave(stranger, project)
    const query = { limit: 1, cursor: body.next_cursor ?? '' }
    await service.expect('listProjectMembers', 404, { token: stranger.token, params, query })
  })
})
