import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { eventually } from '../fixture/eventually.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'
import { clockToMove, countStatuses, taskActions } from '../fixture/tasks.ts'

type Schemas = components['schemas']
type Project = Schemas['Project']

const { storage, keys } = await openTestStorage(t)
const service = await startService(t, { storage })
const { db } = service.deps
const { attachFile, createTag, createTask, readTask } = taskActions(service)
const { setMember } = projectActions(service)
const admin = await service.register('admin')
const manager = await service.register('manager')
const viewer = await service.register('viewer')
const editor = await service.register('editor')
const stranger = await service.register('stranger')

const create = async ({ token }: Account, fields: object = {}): Promise<Project> =>
  (await service.expect('createProject', 201, { token, body: { name: 'A project', ...fields } })).body

/** A project with a manager, an editor and a viewer. */
const createShared = async (): Promise<Project> => {
  const project = await create(manager)
  await setMember(manager, project, viewer, 'viewer')
  await setMember(manager, project, editor, 'editor')
  return (await read(manager, project)).body
}

const requestOf = ({ token }: Account, { id }: Pick<Project, 'id'>, more: Call = {}): Call => ({
  token,
  params: { project_id: id },
  ...more,
})

const read = (account: Account, project: Pick<Project, 'id'>) =>
  service.expect('getProject', 200, requestOf(account, project))

const trash = (account: Account, project: Project) =>
  service.expect('deleteProject', 204, requestOf(account, project))

const ifMatch = (etag: string | null): Call => ({ headers: { 'if-match': etag ?? '' } })

/** The statuses for a viewer, an editor and a stranger. */
const statusesForOthers = async (id: OperationId, project: Project, more: Call = {}) => {
  const replies = await Promise.all(
    [viewer, editor, stranger].map((account) => service.call(id, requestOf(account, project, more))),
  )
  return replies.map(({ status }) => status)
}

t.test('createProject', async (t) => {
  const { token } = manager

  t.test('201: requires only a name, and makes the creator a manager', async (t) => {
    const { body, headers } = await service.expect('createProject', 201, {
      token,
      body: { name: ' Website ' },
    })
    const { id, created_at, updated_at, ...rest } = body
    t.strictSame(rest, {
      name: 'Website',
      description: '',
      color: null,
      archived_at: null,
      role: 'manager',
      member_count: 1,
      open_task_count: 0,
      metadata: {},
      external_source: null,
      external_id: null,
      version: 1,
      revision: 1,
    })
    t.equal(created_at, updated_at)
    t.equal(headers.get('location'), `/projects/${id}`)
    const { body: same, headers: later } = await read(manager, body)
    t.strictSame(same, body)
    t.equal(later.get('etag'), headers.get('etag'))
  })

  t.test('201: all fields; names need not be unique', async (t) => {
    const fields = { name: 'Website', description: 'Of two\nlines', color: '#FFAA00' }
    t.match(await create(manager, fields), { ...fields, color: '#ffaa00' })
  })
})

t.test('getProject', async (t) => {
  const project = await createShared()

  t.test('200: with the role of the caller', async (t) => {
    t.equal(project.member_count, 3)
    t.strictSame((await read(viewer, project)).body, { ...project, role: 'viewer' })
    t.strictSame((await read(editor, project)).body, { ...project, role: 'editor' })
    t.strictSame(
      (await read(admin, project)).body,
      { ...project, role: null },
      'null for a caller who is not a member',
    )
  })

  t.test('200: the highest role, including those of teams', async (t) => {
    const { newTeam, setTeam, removeTeam } = projectRows(db)
    const team = await newTeam(viewer)
    await setTeam(project.id, team, 'commenter')
    t.match((await read(viewer, project)).body, {
      role: 'commenter',
      member_count: 3,
      version: project.version,
    })
    await removeTeam(team)
    t.equal((await read(viewer, project)).body.role, 'viewer')
  })

  t.test('200: the ETag depends on role and counts, the version does not', async (t) => {
    const seen = new Set<string | null>()
    const note = async (account: Account) => seen.add((await read(account, project)).headers.get('etag'))
    await note(manager)
    await note(viewer)
    t.equal(seen.size, 2)
    const task = await createTask(manager, { project_id: project.id })
    t.equal((await read(manager, project)).body.open_task_count, 1)
    await note(manager)
    t.equal(seen.size, 3)
    await service.expect('updateTask', 200, {
      token: manager.token,
      params: { task_id: task.id },
      body: { status: 'done' },
    })
    await note(manager)
    t.equal(seen.size, 3, 'the earlier ETag again')
    t.equal((await read(manager, project)).body.version, project.version)
  })
})

t.test('listProjects', async (t) => {
  const lister = await service.register('lister')
  const { token } = lister
  const created: Project[] = []
  for (const name of ['Beta', 'Äpfel', 'gamma']) {
    created.push(await create(lister, { name }))
    await clockToMove()
  }
  const foreign = await create(manager, { name: 'Foreign' })
  await setMember(manager, foreign, lister, 'viewer')
  const names = async (query: Call['query'] = {}, as = lister) =>
    (await service.expect('listProjects', 200, { token: as.token, query })).body.items.map(({ name }) => name)

  t.test('200: the projects of the caller, newest first', async (t) => {
    const { body } = await service.expect('listProjects', 200, { token, query: { include_total: true } })
    const { body: shared } = await read(lister, foreign)
    t.strictSame(body.items, [shared, ...created.toReversed()])
    t.equal(body.total, 4)
    t.strictSame(await names({}, stranger), [])
  })

  t.test('200: sorted by name, creation or update', async (t) => {
    t.strictSame(await names({ sort: 'name' }), ['Äpfel', 'Beta', 'Foreign', 'gamma'])
    t.strictSame(await names({ sort: '-name', limit: 2 }), ['gamma', 'Foreign'])
    t.strictSame(await names({ sort: 'created_at', limit: 1 }), ['Beta'])
    await service.expect('updateProject', 200, {
      ...requestOf(lister, created[0] ?? foreign),
      body: { description: 'Changed' },
    })
    t.strictSame(await names({ sort: '-updated_at', limit: 1 }), ['Beta'])
  })

  t.test('200: searched by name', async (t) => {
    t.strictSame(await names({ q: 'APF' }), ['Äpfel'])
    t.strictSame(await names({ q: 'a' }), ['gamma', 'Äpfel', 'Beta'])
    t.strictSame(await names({ q: 'a', include_total: true, limit: 1 }), ['gamma'])
    t.strictSame(await names({ q: 'none of them' }), [])
  })

  t.test('200: archived projects only on request', async (t) => {
    const [archived = foreign] = created
    await service.expect('archiveProject', 200, requestOf(lister, archived))
    t.notOk((await names()).includes(archived.name))
    t.ok((await names({ include_archived: true })).includes(archived.name))
    t.notOk((await names({ include_archived: false, q: 'beta' })).includes(archived.name))
    await service.expect('unarchiveProject', 200, requestOf(lister, archived))
    t.ok((await names()).includes(archived.name))
  })

  t.test('200: all=true lists every project, for an administrator', async (t) => {
    t.strictSame(await names({}, admin), [])
    const { body } = await service.expect('listProjects', 200, {
      token: admin.token,
      query: { all: true, q: 'foreign' },
    })
    t.match(body.items, [{ id: foreign.id, role: null, member_count: 2 }])
  })

  t.test('400: a cursor with another include_archived', async (t) => {
    const { body } = await service.expect('listProjects', 200, { token, query: { limit: 1 } })
    const cursor = body.next_cursor ?? ''
    await service.expect('listProjects', 200, { token, query: { cursor, include_archived: false } })
    const other = { token, query: { cursor, include_archived: true } }
    t.match((await service.expect('listProjects', 400, other)).body.detail, /include_archived/)
  })
})

t.test('replaceProject and updateProject', async (t) => {
  const project = await createShared()
  const replace = (more: Call, as = manager) =>
    service.expect('replaceProject', 200, requestOf(as, project, more))
  const patch = (body: object, as = manager) =>
    service.expect('updateProject', 200, requestOf(as, project, { body }))

  t.test('200: PUT resets omitted fields', async (t) => {
    const { body } = await replace({ body: { name: 'Replaced', description: 'Text', color: '#AABBCC' } })
    t.match(body, { name: 'Replaced', description: 'Text', color: '#aabbcc', version: 2, role: 'manager' })
    const { body: reset, headers } = await replace({ body: { name: 'Replaced' } })
    t.match(reset, { name: 'Replaced', description: '', color: null, version: 3, member_count: 3 })
    const { body: same, headers: later } = await read(manager, project)
    t.strictSame(same, reset)
    t.equal(later.get('etag'), headers.get('etag'))
  })

  t.test('200: PATCH keeps omitted fields', async (t) => {
    const { body } = await patch({ color: '#AABBCC' })
    t.match(body, { name: 'Replaced', color: '#aabbcc' })
    t.match((await patch({ description: 'New' })).body, { description: 'New', color: '#aabbcc' })
    t.match((await patch({ color: null })).body, { description: 'New', color: null })
    t.equal((await patch({})).body.version, body.version + 2, 'no change, no new version')
  })

  t.test('200: an administrator without a role', async (t) => {
    t.equal((await patch({ name: 'By an administrator' }, admin)).body.role, null)
  })

  t.test('409: an archived project; 412 and 403 take precedence', async (t) => {
    await service.expect('archiveProject', 200, requestOf(manager, project))
    for (const id of ['replaceProject', 'updateProject'] as const) {
      const { body } = await service.expect(id, 409, requestOf(manager, project, { body: { name: 'x' } }))
      t.equal(body.code, 'project_archived')
    }
    const outdated = { body: { name: 'x' }, ...ifMatch('"1"') }
    await service.expect('updateProject', 412, requestOf(manager, project, outdated))
    t.strictSame(await statusesForOthers('updateProject', project, { body: {} }), [403, 403, 404])
    await service.expect('unarchiveProject', 200, requestOf(manager, project))
    await patch({ name: 'Again' })
  })
})

t.test('archiveProject and unarchiveProject', async (t) => {
  const project = await createShared()

  t.test('200: a repeat changes nothing', async (t) => {
    const { body: first } = await service.expect('archiveProject', 200, requestOf(manager, project))
    t.match(first, { version: project.version + 1, role: 'manager' })
    t.ok(first.archived_at !== null && first.archived_at <= first.updated_at)
    t.strictSame((await service.expect('archiveProject', 200, requestOf(manager, project))).body, first)
    t.strictSame((await read(manager, project)).body, first)
    const { body: open } = await service.expect('unarchiveProject', 200, requestOf(manager, project))
    t.match(open, { archived_at: null, version: project.version + 2 })
    t.strictSame((await service.expect('unarchiveProject', 200, requestOf(manager, project))).body, open)
  })

  t.test('200, 204: an archived project is still archived after deletion and restoration', async (t) => {
    const { body: archived } = await service.expect('archiveProject', 200, requestOf(manager, project))
    await trash(manager, project)
    const { body } = await service.expect('restoreProject', 200, requestOf(manager, project))
    t.equal(body.archived_at, archived.archived_at)
  })
})

/** A project with tasks in every state that deletion and restoration must keep. */
const createFull = async () => {
  const project = await createShared()
  const projectPath = { project_id: project.id }
  const tag = await createTag(manager, `tag of ${project.id}`)
  const tasks = [
    await createTask(manager, { ...projectPath, tag_ids: [tag.id] }),
    await createTask(editor, { ...projectPath, status: 'done' }),
    await createTask(manager, { ...projectPath, assignee_id: stranger.id }),
  ]
  const attachment = await attachFile(manager, tasks[0]?.id ?? '')
  const deleted = await createTask(manager, projectPath)
  await service.expect('deleteTask', 204, { token: manager.token, params: { task_id: deleted.id } })
  return { project, tasks, deleted, attachment, tag }
}

t.test('deleteProject and restoreProject', async (t) => {
  const { project, tasks, deleted, attachment, tag } = await createFull()
  const before = await Promise.all(tasks.map(async ({ id }) => (await readTask(manager, id)).task))
  const statusOfTask = async (account: Account, id: string) =>
    (await service.call('getTask', { token: account.token, params: { task_id: id } })).status
  const statusesOf = (account: Account) =>
    Promise.all([...tasks, deleted].map(({ id }) => statusOfTask(account, id)))
  const tagCount = async (account: Account, query: NonNullable<Call['query']>) =>
    (await service.expect('listTags', 200, { token: account.token, query })).body.items[0]?.task_count
  const everything = { all: true, q: tag.name }

  t.test('204: nothing in the project is visible anywhere', async (t) => {
    t.strictSame(await statusesOf(stranger), [404, 404, 200, 404], 'the assignee can see their task')
    await service.expect('deleteProject', 204, requestOf(manager, project, ifMatch(`"${project.version}"`)))
    for (const account of [manager, editor, viewer, stranger, admin]) {
      await service.expect('getProject', 404, requestOf(account, project))
      t.strictSame(await statusesOf(account), [404, 404, 404, 404])
    }
    await service.expect('deleteProject', 404, requestOf(manager, project))
    await service.expect('updateProject', 404, requestOf(manager, project, { body: {} }))
    await service.expect('archiveProject', 404, requestOf(manager, project))
    await service.expect('createTask', 422, {
      token: manager.token,
      body: { title: 'x', project_id: project.id },
    })
    const path = { token: manager.token, params: { attach_id: attachment } }
    await service.expect('downloadAttachment', 404, path)
    await service.expect('getTrashedTask', 404, { token: admin.token, params: { task_id: deleted.id } })
    t.equal(await tagCount(manager, { q: tag.name }), 0)
    t.equal(await tagCount(admin, everything), 0)
  })

  t.test('200: restores every task with its tags and files', async (t) => {
    const { body: trashed } = await service.expect('getTrashedProject', 200, requestOf(manager, project))
    const { body } = await service.expect('restoreProject', 200, requestOf(manager, project))
    t.strictSame(body, {
      ...project,
      open_task_count: 2,
      version: project.version + 2,
      revision: project.revision + 2,
      updated_at: body.updated_at,
    })
    t.match(trashed, { member_count: 3, role: 'manager', open_task_count: 2 })
    t.strictSame((await read(viewer, project)).body.role, 'viewer')
    t.strictSame((await read(editor, project)).body.role, 'editor')
    const after = await Promise.all(tasks.map(async ({ id }) => (await readTask(manager, id)).task))
    t.strictSame(after, before)
    t.strictSame(await statusesOf(stranger), [404, 404, 200, 404])
    await service.expect('downloadAttachment', 200, {
      token: manager.token,
      params: { attach_id: attachment },
    })
    t.equal(await tagCount(manager, { q: tag.name }), 1)
    t.equal(await tagCount(admin, everything), 1)
  })

  t.test('200: tasks that were already in the trash stay there', async (t) => {
    t.equal(await statusOfTask(manager, deleted.id), 404)
    await service.expect('getTrashedTask', 200, { token: manager.token, params: { task_id: deleted.id } })
  })

  t.test('404, 412: not in the trash, not a manager, another ETag', async () => {
    await service.expect('restoreProject', 404, requestOf(manager, project))
    await trash(manager, project)
    for (const account of [viewer, editor, stranger])
      await service.expect('restoreProject', 404, requestOf(account, project))
    await service.expect('restoreProject', 412, requestOf(manager, project, ifMatch(`"${project.version}"`)))
    await service.expect('restoreProject', 200, requestOf(admin, project))
  })

  t.test('200, 204 for one of five concurrent deletions or restorations, 404 for the others', async (t) => {
    const five = async (id: 'deleteProject' | 'restoreProject') =>
      countStatuses(
        await Promise.all(Array.from({ length: 5 }, () => service.call(id, requestOf(manager, project)))),
      )
    t.strictSame(await five('deleteProject'), { 204: 1, 404: 4 })
    t.strictSame(await five('restoreProject'), { 200: 1, 404: 4 })
  })
})

t.test('listTrashedProjects and getTrashedProject', async (t) => {
  const first = await createShared()
  const second = await create(manager, { name: 'Second' })
  for (const project of [first, second]) {
    await trash(manager, project)
    await clockToMove()
  }
  const ids = async ({ token }: Account, query: Call['query'] = {}) =>
    (await service.expect('listTrashedProjects', 200, { token, query })).body.items.map(({ id }) => id)

  t.test('200: for former managers, last deleted first', async (t) => {
    t.strictSame((await ids(manager)).slice(0, 2), [second.id, first.id])
    for (const account of [viewer, editor, stranger, admin]) t.strictSame(await ids(account), [])
    t.ok((await ids(admin, { all: true })).includes(first.id))
  })

  t.test('200: the project as it will be restored', async (t) => {
    const { body, headers } = await service.expect('getTrashedProject', 200, requestOf(manager, first))
    t.strictSame(body, {
      ...first,
      version: first.version + 1,
      revision: first.revision + 1,
      updated_at: body.updated_at,
      deleted_at: body.deleted_at,
    })
    const { body: page } = await service.expect('listTrashedProjects', 200, { token: manager.token })
    t.strictSame(
      page.items.find(({ id }) => id === first.id),
      body,
    )
    t.equal((await service.expect('getTrashedProject', 200, requestOf(admin, first))).body.role, null)
    const condition = { 'if-none-match': headers.get('etag') ?? '' }
    await service.expect('getTrashedProject', 304, requestOf(manager, first, { headers: condition }))
    await service.expect('getTrashedProject', 412, requestOf(manager, first, ifMatch('"1"')))
  })
})

t.test('deleteTrashedProject', async (t) => {
  const files = await keys()
  const { project, tasks, deleted } = await createFull()
  await service.expect('deleteTrashedProject', 404, requestOf(manager, project))
  await trash(manager, project)
  for (const account of [viewer, editor, stranger])
    await service.expect('deleteTrashedProject', 404, requestOf(account, project))
  await service.expect(
    'deleteTrashedProject',
    412,
    requestOf(manager, project, ifMatch(`"${project.version}"`)),
  )
  await service.expect('deleteTrashedProject', 204, requestOf(manager, project))

  for (const account of [manager, admin]) {
    await service.expect('getTrashedProject', 404, requestOf(account, project))
    await service.expect('restoreProject', 404, requestOf(account, project))
    await service.expect('deleteTrashedProject', 404, requestOf(account, project))
  }
  await eventually('the files of the project are removed', async () => String(await keys()) === String(files))
  await eventually('the rows of the project are deleted', async () => {
    const rows = await db.run('select from projects where id = $1', [project.id])
    return rows.length === 0
  })
  for (const { id } of [...tasks, deleted]) {
    const rows = await db.run('select from tasks where id = $1', [id])
    t.equal(rows.length, 0)
  }
})

t.test('a job deletes projects after 30 days in the trash', async (t) => {
  const { project: old, tasks } = await createFull()
  const young = await create(manager)
  for (const project of [old, young]) await trash(manager, project)
  const age = (id: string, interval: string) =>
    db.run(`update projects set deleted_at = now() - $2::interval where id = $1`, [id, interval])
  await age(old.id, '30 days 1 minute')
  await age(young.id, '29 days 23 hours')
  await runJobs(jobDepsOf(service))
  await service.expect('getTrashedProject', 404, requestOf(manager, old))
  const rows = await db.run('select from tasks where id = $1', [tasks[0]?.id])
  t.equal(rows.length, 0, 'the tasks of the project are deleted')
  await service.expect('restoreProject', 200, requestOf(manager, young))
})

const deleteAccount = ({ id, token }: Account) =>
  service.call('deleteUser', { token, params: { user_id: id } })

t.test('deleteUser and projects', async (t) => {
  t.test('204: tasks and tags in projects pass to a manager', async (t) => {
    const leaver = await service.register('leaver')
    const project = await create(manager)
    await setMember(manager, project, leaver, 'editor')
    const personal = await createTask(leaver)
    const task = await createTask(leaver, { project_id: project.id, assignee_id: leaver.id })
    const trashed = await createTask(leaver, { project_id: project.id })
    await service.expect('deleteTask', 204, { token: leaver.token, params: { task_id: trashed.id } })
    const tag = await createTag(leaver, 'of a leaver')
    await db.run('update tags set project_id = $2 where id = $1', [tag.id, project.id])

    t.equal((await deleteAccount(leaver)).status, 204)
    t.equal((await read(manager, project)).body.member_count, 1, 'not a member')
    await eventually('the row of the user is deleted', async () => {
      const rows = await db.run('select from users where id = $1', [leaver.id])
      return rows.length === 0
    })
    t.match((await readTask(manager, task.id)).task, { owner_id: manager.id, assignee_id: null })
    const { body: inTrash } = await service.expect('getTrashedTask', 200, {
      token: manager.token,
      params: { task_id: trashed.id },
    })
    t.equal(inTrash.owner_id, manager.id)
    const { body: kept } = await service.expect('getTag', 200, {
      token: manager.token,
      params: { tag_id: tag.id },
    })
    t.equal(kept.owner_id, manager.id)
    await service.expect('getTask', 404, { token: admin.token, params: { task_id: personal.id } })
  })

  t.test('204: deletes projects that nobody else can access, even in the trash', async (t) => {
    const loner = await service.register('loner')
    const own = await create(loner)
    const trashed = await create(loner)
    const task = await createTask(loner, { project_id: own.id })
    await createTask(loner, { project_id: trashed.id })
    await trash(loner, trashed)
    t.equal((await deleteAccount(loner)).status, 204)
    for (const project of [own, trashed]) {
      await service.expect('getProject', 404, requestOf(admin, project))
      await service.expect('getTrashedProject', 404, requestOf(admin, project))
    }
    await service.expect('getTask', 404, { token: admin.token, params: { task_id: task.id } })
    await eventually('all rows are deleted', async () => {
      const rows = await db.run('select from projects where id in ($1, $2)', [own.id, trashed.id])
      const people = await db.run('select from users where id = $1', [loner.id])
      return rows.length + people.length === 0
    })
  })

  t.test('409: the last manager of a project with other members', async (t) => {
    const last = await service.register('last')
    const project = await create(last)
    const task = await createTask(last, { project_id: project.id })
    await setMember(last, project, viewer, 'viewer')
    const refused = await deleteAccount(last)
    t.match(refused, { status: 409, body: { code: 'last_manager' } })
    t.equal(
      (await deleteAccount({ ...last, token: admin.token })).status,
      409,
      'an administrator cannot delete the user either',
    )
    t.equal((await readTask(last, task.id)).task.owner_id, last.id, 'nothing has changed')

    await trash(last, project)
    t.equal((await deleteAccount(last)).status, 204)
    const { body } = await service.expect('getTrashedProject', 200, requestOf(admin, project))
    t.match(body, { member_count: 1, role: null })
    await service.expect('getTrashedProject', 404, requestOf(viewer, project))
    const { body: restored } = await service.expect('restoreProject', 200, requestOf(admin, project))
    t.match(restored, { member_count: 2, role: 'manager' }, 'restoring makes the administrator a manager')
    await eventually('the task has an owner', async () => {
      await runJobs(jobDepsOf(service))
      const { owner_id } = (await readTask(admin, task.id)).task
      return [viewer.id, admin.id].includes(owner_id)
    })
  })

  t.test('409: of two managers who delete their accounts concurrently, one stays', async (t) => {
    const [one, two] = [await service.register('one'), await service.register('two')]
    const project = await create(one)
    await setMember(one, project, two, 'manager')
    await setMember(one, project, viewer, 'viewer')
    t.strictSame(countStatuses(await Promise.all([deleteAccount(one), deleteAccount(two)])), {
      204: 1,
      409: 1,
    })
    t.equal((await read(viewer, project)).body.member_count, 2)
  })

  t.test('409: if one of two managers leaves while the other deletes their account, one stays', async (t) => {
    const [one, two] = [await service.register('staying'), await service.register('leaving')]
    const project = await create(one)
    await setMember(one, project, two, 'manager')
    await setMember(one, project, viewer, 'viewer')
    const leave = { token: two.token, params: { project_id: project.id, user_id: two.id } }
    const replies = await Promise.all([deleteAccount(one), service.call('removeProjectMember', leave)])
    t.strictSame(countStatuses(replies), { 204: 1, 409: 1 })
    t.equal((await read(viewer, project)).body.member_count, 2)
  })

  t.test('200, 409: a project is never restored without its manager', async (t) => {
    for (let n = 0; n < 3; n += 1) {
      const restorer = await service.register(`restorer-${n}`)
      const project = await create(restorer)
      await setMember(restorer, project, viewer, 'viewer')
      await trash(restorer, project)
      const [restored, deleted] = await Promise.all([
        service.call('restoreProject', requestOf(restorer, project)),
        deleteAccount(restorer),
      ])
      const { status } = await service.call('getProject', requestOf(viewer, project))
      if (status === 200) t.strictSame([restored.status, deleted.status], [200, 409])
      else t.strictSame([restored.status < 500, deleted.status], [true, 204])
    }
  })

  t.test('204: a project is deleted with its last member', async (t) => {
    const [one, two] = [await service.register('first-of-two'), await service.register('second-of-two')]
    const project = await create(one)
    await setMember(one, project, two, 'manager')
    t.strictSame(countStatuses(await Promise.all([deleteAccount(one), deleteAccount(two)])), { 204: 2 })
    await service.expect('getProject', 404, requestOf(admin, project))
    await service.expect('getTrashedProject', 404, requestOf(admin, project))
  })
})
