import t from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { readChanges } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'

const { db, options } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createProject, setMember, createTeam, setTeamMember, setProjectTeam } = projectActions(service)
const { createTask } = taskActions(service)
const admin = await service.register('admin')
const [ada, grace, edsger, stranger] = [
  await service.register('ada'),
  await service.register('grace'),
  await service.register('edsger'),
  await service.register('stranger'),
]

interface Identified {
  readonly id: string
}

const inTeam = (team: Identified, user: Identified) => ({ team_id: team.id, user_id: user.id })
const inProject = (project: Identified, team: Identified) => ({ project_id: project.id, team_id: team.id })
const isLastManager = { status: 409, body: { code: 'last_manager' } }

const readStatus = async (project: Identified, { token }: Pick<Account, 'token'>): Promise<number> =>
  (await service.call('getProject', { token, params: { project_id: project.id } })).status

const roleIn = async (project: Identified, { token }: Account): Promise<string | null> =>
  (await service.expect('getProject', 200, { token, params: { project_id: project.id } })).body.role

/** A project of ada, in which a team of ada is an editor. Grace is a member of the team. */
const sharedByTeam = async () => {
  const [project, team] = [await createProject(ada), await createTeam(ada)]
  await setTeamMember(ada, team, grace, 'member')
  await setProjectTeam(ada, project, team, 'editor')
  return { project, team }
}

/** A project whose only manager is a team. Its only member is grace; ada is an editor of the project. */
const managedByTeam = async () => {
  const [project, team] = [await createProject(ada), await createTeam(grace)]
  await setTeamMember(grace, team, ada, 'member')
  await setProjectTeam(ada, project, team, 'manager')
  await setMember(ada, project, ada, 'editor')
  await setTeamMember(grace, team, edsger, 'manager')
  const leave = { token: grace.token, params: inTeam(team, ada) }
  await service.expect('removeTeamMember', 204, leave)
  await service.expect('removeTeamMember', 204, { token: edsger.token, params: inTeam(team, edsger) })
  return { project, team }
}

t.test('createTeam', async (t) => {
  t.test('201: the creator is a manager', async (t) => {
    const request = { token: ada.token, body: { name: '  Design ' } }
    const { body, headers } = await service.expect('createTeam', 201, request)
    const { id, created_at, updated_at, ...rest } = body
    t.strictSame(rest, { name: 'Design', role: 'manager', version: 1, revision: 1 })
    t.equal(created_at, updated_at)
    t.equal(headers.get('location'), `/teams/${id}`)
    const read = await service.expect('getTeam', 200, { token: ada.token, params: { team_id: id } })
    t.strictSame(read.body, body)
    t.equal(read.headers.get('etag'), headers.get('etag'))
    const { body: members } = await service.expect('listTeamMembers', 200, {
      token: ada.token,
      params: { team_id: id },
    })
    t.match(members.items, [{ user_id: ada.id, role: 'manager', version: 1 }])
  })
})

t.test('getTeam', async (t) => {
  t.test('200 for members, users in a project with the team, and administrators, else 404', async (t) => {
    const { project, team } = await sharedByTeam()
    const request = { params: { team_id: team.id } }
    const see = async ({ token }: Account) => (await service.call('getTeam', { token, ...request })).status
    t.equal(await see(grace), 200)
    t.equal(await see(admin), 200)
    t.equal(await see(edsger), 404)
    await setMember(ada, project, edsger, 'viewer')
    const { body } = await service.expect('getTeam', 200, { token: edsger.token, ...request })
    t.equal(body.role, null)
    await service.expect('listTeamMembers', 200, { token: edsger.token, ...request })
    const leave = { project_id: project.id, user_id: edsger.id }
    await service.expect('removeProjectMember', 204, { token: edsger.token, params: leave })
    t.equal(await see(edsger), 404)
    await service.expect('listTeamMembers', 404, { token: edsger.token, ...request })
  })

  t.test('304 until the role of the caller changes', async () => {
    const team = await createTeam(ada)
    const request = { token: ada.token, params: { team_id: team.id } }
    const { headers } = await service.expect('getTeam', 200, request)
    const etag = headers.get('etag') ?? ''
    await service.expect('getTeam', 304, { ...request, headers: { 'if-none-match': etag } })
    await setTeamMember(ada, team, grace, 'manager')
    await setTeamMember(grace, team, ada, 'member')
    await service.expect('getTeam', 200, { ...request, headers: { 'if-none-match': etag } })
  })
})

t.test('updateTeam', async (t) => {
  const team = await createTeam(ada)
  await setTeamMember(ada, team, grace, 'member')
  const request = { token: ada.token, params: { team_id: team.id } }
  const { headers } = await service.expect('getTeam', 200, request)
  const change = { ...request, headers: { 'if-match': headers.get('etag') ?? '' }, body: { name: 'Renamed' } }
  const { body } = await service.expect('updateTeam', 200, change)
  t.match(body, { name: 'Renamed', version: 2 })
  t.match((await service.expect('updateTeam', 200, { ...request, body: {} })).body, { version: 2 })
})

t.test('listTeams', async (t) => {
  const idsOf = async ({ token }: Account, query: NonNullable<Call['query']> = {}) =>
    (await service.expect('listTeams', 200, { token, query })).body.items.map(({ id }) => id)
  const barbara = await service.register('barbara')
  const own = await createTeam(barbara, 'Compilers')
  const { project, team } = await sharedByTeam()
  await setMember(ada, project, barbara, 'viewer')

  t.test('200: own teams and teams of visible projects, each once, newest first', async (t) => {
    const second = await createProject(ada)
    await setMember(ada, second, barbara, 'viewer')
    await setProjectTeam(ada, second, team, 'viewer')
    t.strictSame(await idsOf(barbara), [team.id, own.id])
    t.strictSame(await idsOf(barbara, { q: 'OMPIL' }), [own.id])
    t.strictSame(await idsOf(stranger), [])
  })

  t.test('200 for all=true by administrators, 403 by others', async (t) => {
    t.strictSame(await idsOf(admin), [])
    t.ok((await idsOf(admin, { all: true, limit: 200 })).includes(own.id))
    await service.expect('listTeams', 403, { token: barbara.token, query: { all: true } })
  })
})

t.test('setTeamMember', async (t) => {
  t.test('409 for a demotion of the last manager', async (t) => {
    const team = await createTeam(ada)
    const request = { token: ada.token, params: inTeam(team, ada) }
    const demotion = { ...request, body: { role: 'member' } }
    t.match(await service.call('setTeamMember', demotion), isLastManager)
    t.match((await service.expect('getTeamMember', 200, request)).body, {
      role: 'manager',
      version: 1,
      revision: 1,
    })
    await setTeamMember(ada, team, grace, 'manager')
    await service.expect('setTeamMember', 200, demotion)
  })

  t.test('201 for a new member, 200 for another role', async (t) => {
    const team = await createTeam(ada)
    const request = { token: ada.token, params: inTeam(team, grace) }
    const added = await service.expect('setTeamMember', 201, { ...request, body: { role: 'member' } })
    t.match(added.body, { user_id: grace.id, role: 'member', version: 1 })
    t.equal(added.headers.get('location'), `/teams/${team.id}/members/${grace.id}`)
    const changed = await service.expect('setTeamMember', 200, { ...request, body: { role: 'manager' } })
    t.match(changed.body, { role: 'manager', version: 2 })
    const read = await service.expect('getTeamMember', 200, request)
    t.strictSame(read.body, changed.body)
    t.equal(read.headers.get('etag'), changed.headers.get('etag'))
    await service.expect('setTeamMember', 200, { ...request, body: read.body })
  })

  t.test('412 for a new member with If-Match: *', async () => {
    const request = { token: ada.token, params: inTeam(await createTeam(ada), grace) }
    const existing = { ...request, body: { role: 'member' }, headers: { 'if-match': '*' } }
    await service.expect('setTeamMember', 412, existing)
  })

  t.test('409 or 403 for one of two managers who demote each other', async (t) => {
    for (let round = 0; round < 3; round += 1) {
      const team = await createTeam(ada)
      await setTeamMember(ada, team, grace, 'manager')
      const demote = ({ token }: Account, other: Account) =>
        service.call('setTeamMember', { token, params: inTeam(team, other), body: { role: 'member' } })
      const counts = countStatuses(await Promise.all([demote(ada, grace), demote(grace, ada)]))
      t.equal(counts[200], 1)
      t.equal((counts[409] ?? 0) + (counts[403] ?? 0), 1)
    }
  })

  t.test('a new member sees the projects of the team, also in the change feed', async (t) => {
    const { project, team } = await sharedByTeam()
    const task = await createTask(ada, { project_id: project.id })
    t.equal(await readStatus(project, edsger), 404)
    const before = await readChanges(service, edsger)
    await setTeamMember(ada, team, edsger, 'member')
    t.equal(await roleIn(project, edsger), 'editor')
    const { changed } = await readChanges(service, edsger, { since: before.next_cursor })
    t.strictSame(
      changed.map(({ id }) => id),
      [task.id],
    )
  })
})

t.test('removeTeamMember', async (t) => {
  t.test('204: access ends at once, also for cursors, the change feed and API tokens', async (t) => {
    const katherine = await service.register('katherine')
    const { project, team } = await sharedByTeam()
    await setTeamMember(ada, team, katherine, 'member')
    const tasks = [
      await createTask(ada, { project_id: project.id }),
      await createTask(ada, { project_id: project.id }),
    ]
    const scopes = ['projects:read', 'tasks:read']
    const { token } = katherine
    const { body: apiToken } = await service.expect('createApiToken', 201, {
      token,
      body: { name: 'a program', scopes },
    })
    t.equal(await readStatus(project, { token: apiToken.token }), 200)
    const list = { token: apiToken.token, query: { limit: 1 } }
    const { body: page } = await service.expect('listTasks', 200, list)
    const memberListRequest = { token, params: { project_id: project.id }, query: { limit: 1 } }
    const { body: members } = await service.expect('listProjectMembers', 200, memberListRequest)
    const before = await readChanges(service, katherine)

    await service.expect('removeTeamMember', 204, { token: ada.token, params: inTeam(team, katherine) })
    t.equal(await readStatus(project, katherine), 404)
    t.equal(await readStatus(project, { token: apiToken.token }), 404)
    for (const { id } of tasks) await service.expect('getTask', 404, { token, params: { task_id: id } })
    const next = { token: apiToken.token, query: { limit: 1, cursor: page.next_cursor ?? '' } }
    t.strictSame((await service.expect('listTasks', 200, next)).body.items, [])
    const rest = { ...memberListRequest, query: { limit: 1, cursor: members.next_cursor ?? '' } }
    await service.expect('listProjectMembers', 404, rest)
    const after = await readChanges(service, katherine, { since: before.next_cursor })
    t.strictSame(after.changed, [])
    t.strictSame(after.deleted.toSorted(), tasks.map(({ id }) => id).toSorted())
  })

  t.test('204: direct access and access through other teams stay, with the highest role', async (t) => {
    const { project, team } = await sharedByTeam()
    const other = await createTeam(ada)
    await setTeamMember(ada, other, grace, 'member')
    await setProjectTeam(ada, project, other, 'manager')
    await setMember(ada, project, grace, 'viewer')
    const leave = (from: Identified) =>
      service.expect('removeTeamMember', 204, { token: grace.token, params: inTeam(from, grace) })
    t.equal(await roleIn(project, grace), 'manager')
    await leave(other)
    t.equal(await roleIn(project, grace), 'editor')
    await leave(team)
    t.equal(await roleIn(project, grace), 'viewer')
  })

  t.test('409 for the last manager of the team', async (t) => {
    const team = await createTeam(ada)
    const leave = ({ id, token }: Account) =>
      service.call('removeTeamMember', { token, params: inTeam(team, { id }) })
    t.match(await leave(ada), isLastManager)
    await setTeamMember(ada, team, grace, 'manager')
    t.strictSame(countStatuses(await Promise.all([leave(ada), leave(grace)])), { 204: 1, 409: 1 })
  })

  t.test('409 for the last manager of a project', async (t) => {
    const { project, team } = await managedByTeam()
    const request = { token: grace.token, params: inTeam(team, grace) }
    t.match(await service.call('removeTeamMember', request), isLastManager)
    await setTeamMember(grace, team, edsger, 'manager')
    await service.expect('removeTeamMember', 204, request)
    t.equal(await roleIn(project, edsger), 'manager')
  })
})

t.test('getTeamMember: 404 for a user who is not a member', async () => {
  const { team } = await sharedByTeam()
  await service.expect('getTeamMember', 404, { token: ada.token, params: inTeam(team, edsger) })
})

t.test('listTeamMembers', async (t) => {
  const { team } = await sharedByTeam()
  const request = { token: grace.token, params: { team_id: team.id } }
  const { body } = await service.expect('listTeamMembers', 200, { ...request, query: { expand: 'user' } })
  t.strictSame(
    body.items.map(({ role, user }) => [role, user?.username]),
    [
      ['member', 'grace'],
      ['manager', 'ada'],
    ],
  )
  const searched = await service.expect('listTeamMembers', 200, { ...request, query: { q: 'AD' } })
  t.match(searched.body.items, [{ user_id: ada.id }])
  t.strictSame(
    (await service.expect('listTeamMembers', 200, { ...request, query: { q: 'x' } })).body.items,
    [],
  )
})

t.test('deleteTeam', async (t) => {
  t.test('204: access through it ends at once', async (t) => {
    const { project, team } = await sharedByTeam()
    const request = { token: ada.token, params: { team_id: team.id } }
    await service.expect('deleteTeam', 204, request)
    await service.expect('deleteTeam', 404, request)
    t.equal(await readStatus(project, grace), 404)
    t.equal(await readStatus(project, ada), 200)
    const teams = { token: ada.token, params: { project_id: project.id } }
    t.strictSame((await service.expect('listProjectTeams', 200, teams)).body.items, [])
  })

  t.test('409 for a team with the last manager of a project', async (t) => {
    const { project, team } = await managedByTeam()
    const request = { token: grace.token, params: { team_id: team.id } }
    t.match(await service.call('deleteTeam', request), isLastManager)
    t.equal(await roleIn(project, grace), 'manager')
    await setMember(grace, project, ada, 'manager')
    await service.expect('deleteTeam', 204, request)
    t.equal(await readStatus(project, grace), 404)
  })
})

t.test('setProjectTeam', async (t) => {
  t.test('201 and 200: the members of the team get the role', async (t) => {
    const [project, team] = [await createProject(ada), await createTeam(ada, 'Design')]
    await setTeamMember(ada, team, grace, 'member')
    const request = { token: ada.token, params: inProject(project, team) }
    const added = await service.expect('setProjectTeam', 201, { ...request, body: { role: 'viewer' } })
    t.match(added.body, { team_id: team.id, name: 'Design', role: 'viewer', version: 1 })
    t.equal(added.headers.get('location'), `/projects/${project.id}/members/teams/${team.id}`)
    t.equal(await roleIn(project, grace), 'viewer')
    t.equal(await roleIn(project, ada), 'manager')
    const changed = await service.expect('setProjectTeam', 200, { ...request, body: { role: 'editor' } })
    t.match(changed.body, { role: 'editor', version: 2 })
    t.equal(await roleIn(project, grace), 'editor')
    const read = await service.expect('getProjectTeam', 200, request)
    t.strictSame(read.body, changed.body)
    await service.expect('setProjectTeam', 200, { ...request, body: read.body })
    const member = { token: grace.token, params: { project_id: project.id, user_id: grace.id } }
    const { body } = await service.expect('getProjectMember', 200, member)
    t.match(body, { role: 'editor', direct_role: null, version: 0 })
    await service.expect('removeProjectMember', 409, member)
  })

  t.test('a direct role is added with If-Match "0"', async (t) => {
    const { project } = await sharedByTeam()
    const params = { project_id: project.id, user_id: grace.id }
    const request = { token: ada.token, params, headers: { 'if-match': '"0"' }, body: { role: 'viewer' } }
    const { body } = await service.expect('setProjectMember', 200, request)
    t.match(body, { role: 'editor', direct_role: 'viewer', version: 1 })
    const read = { token: ada.token, params }
    t.strictSame((await service.expect('getProjectMember', 200, read)).body, body)
    await service.expect('setProjectMember', 412, request)
  })

  t.test('a user with access through a team is a member without a role of their own', async (t) => {
    const { project, team } = await sharedByTeam()
    const request = { token: ada.token, params: { project_id: project.id, user_id: grace.id } }
    const put = (headers: Record<string, string>) =>
      service.call('setProjectMember', { ...request, headers, body: { role: 'viewer' } })
    const remove = (headers: Record<string, string> = {}) =>
      service.call('removeProjectMember', { ...request, headers })
    const isFailed = { status: 412, body: { code: 'precondition_failed' } }
    const isThroughTeam = { status: 409, body: { code: 'access_through_team' } }

    t.match(await put({ 'if-none-match': '*' }), isFailed)
    t.match(await put({ 'if-match': '"1"' }), isFailed)
    t.match(await remove({ 'if-match': '"1"' }), isFailed)
    t.match(await remove({ 'if-none-match': '*' }), isFailed)
    t.match(await remove({ 'if-match': '"0"' }), isThroughTeam)
    t.match(await remove(), isThroughTeam)
    t.match(await service.call('removeProjectMember', { ...request, token: grace.token }), isThroughTeam)
    await service.expect('removeProjectMember', 403, {
      token: grace.token,
      params: { ...request.params, user_id: ada.id },
    })
    const { body } = await service.expect('getProjectMember', 200, request)
    t.match(body, { role: 'editor', direct_role: null, version: 0 })

    t.match(await put({ 'if-match': '*' }), { status: 200, body: { direct_role: 'viewer', version: 1 } })
    t.equal((await remove({ 'if-match': '"1"' })).status, 204)
    t.strictSame((await service.expect('getProjectMember', 200, request)).body, body)
    await service.expect('removeProjectTeam', 204, { token: ada.token, params: inProject(project, team) })
    t.equal((await remove()).status, 404)
    t.equal((await put({})).status, 201)
  })

  t.test('404 for an invisible team, 412 for a new one with If-Match: *', async () => {
    const { project, team } = await sharedByTeam()
    const hidden = await createTeam(stranger)
    const request = { token: ada.token, params: inProject(project, team), body: { role: 'viewer' } }
    await service.expect('setProjectTeam', 404, { ...request, params: inProject(project, hidden) })
    const another = { ...request, params: inProject(project, await createTeam(ada)) }
    await service.expect('setProjectTeam', 412, { ...another, headers: { 'if-match': '*' } })
  })

  t.test('409 for a team with the last manager, whose role stays', async (t) => {
    const { project, team } = await managedByTeam()
    const request = { token: grace.token, params: inProject(project, team) }
    t.match(await service.call('setProjectTeam', { ...request, body: { role: 'editor' } }), isLastManager)
    t.match(await service.call('removeProjectTeam', request), isLastManager)
    t.equal(await roleIn(project, grace), 'manager')
  })
})

t.test('removeProjectTeam', async (t) => {
  const { project, team } = await sharedByTeam()
  const request = { token: ada.token, params: inProject(project, team) }
  await service.expect('removeProjectTeam', 204, request)
  await service.expect('removeProjectTeam', 404, request)
  t.equal(await readStatus(project, grace), 404)
})

t.test('getProjectTeam: 404 for a team that is not in the project', async () => {
  const { project } = await sharedByTeam()
  const params = inProject(project, await createTeam(grace))
  await service.expect('getProjectTeam', 404, { token: grace.token, params })
})

t.test('listProjectTeams', async (t) => {
  const { project, team } = await sharedByTeam()
  const second = await createTeam(ada, 'Second')
  await setProjectTeam(ada, project, second, 'viewer')
  const request = { token: grace.token, params: { project_id: project.id } }
  const { body } = await service.expect('listProjectTeams', 200, request)
  t.match(body.items, [{ team_id: second.id, name: 'Second', role: 'viewer' }, { team_id: team.id }])
  const empty = { token: ada.token, params: { project_id: (await createProject(ada)).id } }
  t.strictSame((await service.expect('listProjectTeams', 200, empty)).body.items, [])
  await service.expect('listProjectTeams', 404, { ...empty, token: grace.token })
})

t.test('deleting an account', async (t) => {
  const leave = ({ id, token }: Account) => service.call('deleteUser', { token, params: { user_id: id } })
  let managers = 0
  const newTeam = async () => {
    managers += 1
    const manager = await service.register(`manager${managers}`)
    return { manager, team: await createTeam(manager) }
  }

  t.test('409 for the last manager of a team with other members', async (t) => {
    const { manager, team } = await newTeam()
    await setTeamMember(manager, team, grace, 'member')
    t.match(await leave(manager), isLastManager)
    await setTeamMember(manager, team, grace, 'manager')
    t.equal((await leave(manager)).status, 204)
    t.equal((await service.call('getTeam', { token: grace.token, params: { team_id: team.id } })).status, 200)
  })

  t.test('204: a team without other members is deleted, even if it is in a project', async (t) => {
    const { manager, team } = await newTeam()
    const [own, adasProject] = [await createProject(manager), await createProject(ada)]
    await setProjectTeam(manager, own, team, 'manager')
    await setMember(ada, adasProject, manager, 'manager')
    await setProjectTeam(manager, adasProject, team, 'viewer')
    t.equal((await leave(manager)).status, 204)
    await service.expect('getTeam', 404, { token: admin.token, params: { team_id: team.id } })
    const teams = { token: ada.token, params: { project_id: adasProject.id } }
    t.strictSame((await service.expect('listProjectTeams', 200, teams)).body.items, [])
  })

  t.test('409 for the last manager of a project through a team', async (t) => {
    const { manager, team } = await newTeam()
    const project = await createProject(manager)
    await setProjectTeam(manager, project, team, 'manager')
    await setMember(manager, project, grace, 'editor')
    t.match(await leave(manager), isLastManager)
    await setTeamMember(manager, team, edsger, 'manager')
    t.equal((await leave(manager)).status, 204)
    t.equal(await roleIn(project, edsger), 'manager')
    const members = { token: grace.token, params: { project_id: project.id } }
    const { body } = await service.expect('listProjectMembers', 200, members)
    t.strictSame(
      body.items.map(({ user_id }) => user_id),
      [edsger.id, grace.id],
    )
  })
})

/** Sends requests so that each has begun before any of them changes something. */
const sendTogether = async (
  table: 'projects' | 'teams',
  { id }: Identified,
  send: readonly (() => Promise<Reply>)[],
): Promise<Reply[]> => {
  const sql = createSqlClient(options, { max: 2 })
  const allWait = async () => {
    const waiting = await sql`
      select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    return waiting.length === send.length
  }
  try {
    const { replies } = await sql.begin(async (transaction) => {
      await transaction`select from ${transaction(table)} where id = ${id} for update`
      const begun = send.map((one) => one())
      await eventually('all wait for the lock', allWait)
      return { replies: begun }
    })
    return await Promise.all(replies)
  } finally {
    await sql.end()
  }
}

t.test(
  'of two concurrent PUTs with the same condition, which the first one ends, the second one fails',
  async (t) => {
    const memberThroughTeam = async () => {
      const { project } = await sharedByTeam()
      return {
        table: 'projects',
        locked: project,
        params: { project_id: project.id, user_id: grace.id },
      } as const
    }
    const newMember = async () => {
      const project = await createProject(ada)
      return {
        table: 'projects',
        locked: project,
        params: { project_id: project.id, user_id: grace.id },
      } as const
    }
    const newTeam = async () => {
      const [project, team] = [await createProject(ada), await createTeam(ada)]
      return { table: 'projects', locked: project, params: inProject(project, team) } as const
    }
    const newTeamMember = async () => {
      const team = await createTeam(ada)
      return { table: 'teams', locked: team, params: inTeam(team, grace) } as const
    }
    const roles = ['viewer', 'manager']
    for (const [put, get, prepare, allRoles, condition, value, status] of [
      ['setProjectMember', 'getProjectMember', memberThroughTeam, roles, 'if-match', '"0"', 200],
      ['setProjectMember', 'getProjectMember', memberThroughTeam, roles, 'if-none-match', '"1"', 200],
      ['setProjectMember', 'getProjectMember', newMember, roles, 'if-none-match', '*', 201],
      ['setProjectMember', 'getProjectMember', newMember, roles, 'if-none-match', '"1"', 201],
      ['setProjectTeam', 'getProjectTeam', newTeam, roles, 'if-none-match', '*', 201],
      ['setProjectTeam', 'getProjectTeam', newTeam, roles, 'if-none-match', '"1"', 201],
      ['setTeamMember', 'getTeamMember', newTeamMember, ['member', 'manager'], 'if-none-match', '*', 201],
      ['setTeamMember', 'getTeamMember', newTeamMember, ['member', 'manager'], 'if-none-match', '"1"', 201],
    ] as const) {
      const name = `${put} by ${prepare.name}, ${condition}: ${value}`
      const { table, locked, params } = await prepare()
      const { token } = ada
      const send = allRoles.map(
        (role) => () => service.call(put, { token, params, headers: { [condition]: value }, body: { role } }),
      )
      const replies = await sendTogether(table, locked, send)
      t.strictSame(countStatuses(replies), { [status]: 1, 412: 1 }, name)
      const written = replies.find((reply) => reply.status === status)
      t.strictSame((await service.call(get, { token, params })).body, written?.body, name)
    }
  },
)

t.test('of two concurrent removals of a member, the second one finds no role of their own', async (t) => {
  const removeTwice = async (project: Identified) => {
    const request = { token: ada.token, params: { project_id: project.id, user_id: grace.id } }
    const remove = () => service.call('removeProjectMember', request)
    return countStatuses(await sendTogether('projects', project, [remove, remove]))
  }
  const project = await createProject(ada)
  await setMember(ada, project, grace, 'editor')
  t.strictSame(await removeTwice(project), { 204: 1, 404: 1 })
  const shared = await sharedByTeam()
  await setMember(ada, shared.project, grace, 'manager')
  t.strictSame(await removeTwice(shared.project), { 204: 1, 409: 1 })
})
