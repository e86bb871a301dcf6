import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { type Account, type Call, fileForm, startService } from '../fixture/service.ts'
import { pointersOf, type Task, taskActions, unknownId } from '../fixture/tasks.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

type Schemas = components['schemas']

/** Tasks in projects: permissions, moves, lists, and what an archived project rejects. */

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const admin = await service.register('admin')
const { attachFile, createTag, createTask, readTask } = taskActions(service)

const roles = ['viewer', 'commenter', 'editor', 'manager'] as const
const members = {
  viewer: await service.register('viewer'),
  commenter: await service.register('commenter'),
  editor: await service.register('editor'),
  manager: await service.register('manager'),
}
const assignee = await service.register('assignee')
const stranger = await service.register('stranger')
const { editor, manager, viewer } = members
const people = { ...members, assignee, stranger, admin }
type Person = keyof typeof people

/** Creates a project with a member of each role. */
const newProject = async (): Promise<string> => {
  const id = newId()
  await db.run('insert into projects (id, name, description) values ($1, $2, $3)', [id, 'A project', ''])
  for (const role of roles.toReversed()) await join(id, members[role], role)
  return id
}

const { setMember: join, removeMember: leave, setArchived, trashProject } = projectRows(db)

/** Creates a task of the manager, assigned to a user who is no member. */
const newTask = (project: string, fields: object = {}): Promise<Task> =>
  createTask(manager, { project_id: project, assignee_id: assignee.id, ...fields })

const statusOf = async (
  operation: Parameters<typeof service.call>[0],
  { token }: Account,
  request: Call,
): Promise<number> => (await service.call(operation, { token, ...request })).status

const patch = async ({ token }: Account, { id }: Task, body: object) => {
  const reply = await service.call('updateTask', { token, params: { task_id: id }, body })
  return { status: reply.status, body: reply.body as Task & Schemas['Problem'] }
}

const project = await newProject()

/** The status of a request by each person, for a new task each time. */
const statusesOf = async (
  send: (account: Account, task: Task, who: Person) => Promise<number>,
): Promise<Partial<Record<Person, number>>> => {
  const statuses: Partial<Record<Person, number>> = {}
  for (const who of Object.keys(people) as Person[])
    statuses[who] = await send(people[who], await newTask(project), who)
  return statuses
}

/** The expected statuses: `status` for the given people, 404 for the stranger, 403 for the others. */
const only = (permitted: readonly Person[], status: number): Record<Person, number> => {
  const of = (who: Person): number => (who === 'stranger' ? 404 : permitted.includes(who) ? status : 403)
  return {
    viewer: of('viewer'),
    commenter: of('commenter'),
    editor: of('editor'),
    manager: of('manager'),
    assignee: of('assignee'),
    stranger: of('stranger'),
    admin: of('admin'),
  }
}

const canChange: readonly Person[] = ['editor', 'manager', 'assignee', 'admin']
const canEdit: readonly Person[] = ['editor', 'manager', 'admin']

t.test('a task has the id of its project', async (t) => {
  const task = await newTask(project)
  t.equal(task.project_id, project)
  t.equal((await createTask(manager)).project_id, null)
  const { task: read, etag } = await readTask(viewer, task.id)
  t.strictSame(read, task)
  t.equal(etag, '"1.1"')
  t.equal(
    (await readTask(assignee, task.id)).task.project_id,
    project,
    'also for an assignee who is no member',
  )
})

t.test('permissions for a PUT of the body of GET, a transfer and a move', async (t) => {
  const params = ({ id }: Task) => ({ params: { task_id: id } })
  t.strictSame(
    await statusesOf((account, task) =>
      statusOf('replaceTask', account, { ...params(task), body: { ...task } }),
    ),
    only(canChange, 200),
    'replace with the body of GET',
  )
  t.strictSame(
    await statusesOf((account, task) =>
      statusOf('updateTask', account, { ...params(task), body: { owner_id: editor.id } }),
    ),
    only(canEdit, 200),
    'transfer',
  )
  t.strictSame(
    await statusesOf((account, task) =>
      statusOf('updateTask', account, { ...params(task), body: { project_id: null } }),
    ),
    only(canEdit, 200),
    'move out of the project',
  )
})

t.test('createTask in a project', async (t) => {
  const create = async ({ token }: Account, fields: object) =>
    service.call('createTask', { token, body: { title: 'A task', ...fields } })

  t.test('201 for editors, managers and administrators, 403 for viewers and commenters', async (t) => {
    const expected = { viewer: 403, commenter: 403, editor: 201, manager: 201, admin: 201 }
    for (const [who, status] of Object.entries(expected))
      t.equal((await create(people[who as Person], { project_id: project })).status, status, who)
  })

  t.test('422 for an unknown or invisible project', async (t) => {
    const [unknown, unseen] = [
      await create(stranger, { project_id: unknownId }),
      await create(stranger, { project_id: project }),
    ]
    t.equal(unseen.status, 422)
    t.strictSame(pointersOf(unseen.body as Schemas['Problem']), ['/project_id'])
    t.equal((unseen.body as Schemas['Problem']).detail, (unknown.body as Schemas['Problem']).detail)
    t.equal((await create(assignee, { project_id: project })).status, 422, 'an assignee who is no member')
    const forAnother = await create(admin, { project_id: unknownId, owner_id: editor.id })
    t.strictSame(pointersOf(forAnother.body as Schemas['Problem']), ['/project_id'])
  })

  t.test('403 for another owner, except by administrators', async (t) => {
    const given = { project_id: project, owner_id: editor.id }
    t.equal((await create(manager, given)).status, 403)
    const { body } = await service.expect('createTask', 201, {
      token: admin.token,
      body: { title: 'A task', ...given },
    })
    t.match(body, { owner_id: editor.id, project_id: project })
  })
})

t.test('moving a task', async (t) => {
  const other = await newProject()
  const readable = newId()
  await db.run('insert into projects (id, name, description) values ($1, $2, $3)', [readable, 'Read', ''])
  await join(readable, manager, 'manager')
  await join(readable, editor, 'viewer')
  const hidden = newId()
  await db.run('insert into projects (id, name, description) values ($1, $2, $3)', [hidden, 'Hidden', ''])
  await join(hidden, stranger, 'manager')

  t.test('200: to another project, and out of it', async (t) => {
    const task = await newTask(project)
    t.match(await patch(editor, task, { project_id: other }), {
      status: 200,
      body: { project_id: other, owner_id: manager.id, version: 2 },
    })
    t.match(await patch(editor, task, { project_id: null }), { status: 200, body: { project_id: null } })
    t.equal((await patch(editor, task, {})).status, 404, 'a personal task of another user')
    t.match(await patch(manager, task, { project_id: other }), { status: 200, body: { project_id: other } })
    t.match(
      await patch(manager, task, { project_id: other }),
      { status: 200, body: { version: 4 } },
      'nothing changes',
    )
  })

  t.test('403 to a project that the caller can only see', async (t) => {
    const task = await newTask(project)
    t.equal((await patch(editor, task, { project_id: readable })).status, 403)
    t.equal((await patch(manager, task, { project_id: readable })).status, 200)
  })

  t.test('422 to an invisible project', async (t) => {
    const task = await newTask(project)
    const { status, body } = await patch(editor, task, { project_id: hidden })
    t.equal(status, 422)
    t.match(body, { code: 'unknown_reference', detail: 'The project does not exist.' })
    t.strictSame(pointersOf(body), ['/project_id'])
    t.equal((await patch(admin, task, { project_id: hidden })).status, 200)
  })

  t.test('403 for a personal task by its assignee, even to a project of theirs', async (t) => {
    const task = await createTask(stranger, { assignee_id: editor.id })
    t.equal((await patch(editor, task, { project_id: project })).status, 403)
    t.equal((await patch(editor, task, { title: 'Changed' })).status, 200)
  })

  t.test('PUT without project_id keeps the project', async (t) => {
    const { id } = await newTask(project)
    const put = async (body: object) =>
      (await service.expect('replaceTask', 200, { token: manager.token, params: { task_id: id }, body })).body
    t.match(await put({ title: 'Replaced' }), { title: 'Replaced', project_id: project })
    t.match(await put({ title: 'Replaced', project_id: null }), { project_id: null })
  })

  t.test('412 before 422 for an invisible project', async (t) => {
    const { id } = await newTask(project)
    const request = { params: { task_id: id }, body: { project_id: hidden }, headers: { 'if-match': '"9"' } }
    t.equal(await statusOf('updateTask', manager, request), 412)
  })
})

t.test('an assignee who leaves the project keeps their task', async (t) => {
  const formerProject = await newProject()
  const task = await newTask(formerProject, { assignee_id: editor.id })
  await leave(formerProject, editor)
  t.match(await patch(editor, task, { status: 'in_progress' }), {
    status: 200,
    body: { project_id: formerProject },
  })
  t.equal((await patch(editor, task, { project_id: null })).status, 403)
  t.equal((await patch(editor, task, { owner_id: editor.id })).status, 403)
  t.equal(await statusOf('deleteTask', editor, { params: { task_id: task.id } }), 403)
  t.equal((await patch(editor, task, { assignee_id: null })).status, 200)
  t.equal((await patch(editor, task, {})).status, 404)
  t.equal(
    (await patch(manager, task, { assignee_id: stranger.id })).status,
    200,
    'the assignee need not be a member',
  )
})

t.test('in an archived project', async (t) => {
  const archived = await newProject()
  const tag = await createTag(manager, 'archived')
  const task = await newTask(archived, { tag_ids: [tag.id] })
  const trashed = await newTask(archived)
  const personal = await createTask(manager)
  const taskRequest = { params: { task_id: task.id } }
  const taskTagRequest = { params: { task_id: task.id, tag_id: tag.id } }
  const trashRequest = { params: { task_id: trashed.id } }
  const attachment = { params: { attach_id: await attachFile(manager, task.id) } }
  await service.expect('deleteTask', 204, { token: manager.token, ...trashRequest })
  const creation = { token: manager.token, ...taskRequest, headers: tusHeaders(5) }
  const upload = { upload_id: uploadIdIn((await service.expect('createUpload', 201, creation)).headers) }
  const chunk = {
    params: upload,
    body: 'hello',
    headers: pieceHeaders(0),
  }
  await setArchived(archived, true)

  const writes: readonly (readonly [Parameters<typeof service.call>[0], Call])[] = [
    ['createTask', { body: { title: 'A task', project_id: archived } }],
    ['updateTask', { ...taskRequest, body: { title: 'Changed' } }],
    ['updateTask', { ...taskRequest, body: { project_id: null } }],
    ['updateTask', { params: { task_id: personal.id }, body: { project_id: archived } }],
    ['replaceTask', { ...taskRequest, body: { title: 'Changed' } }],
    ['deleteTask', taskRequest],
    ['batchTasks', { body: { atomic: true, update: [{ task_id: task.id, patch: { title: 'Changed' } }] } }],
    ['addTaskTag', taskTagRequest],
    ['removeTaskTag', taskTagRequest],
    ['addTaskAttachment', { ...taskRequest, body: fileForm('hello') }],
    ['deleteAttachment', attachment],
    ['createUpload', { ...taskRequest, headers: tusHeaders(5) }],
    ['appendUpload', chunk],
    ['restoreTask', trashRequest],
    ['deleteTrashedTask', trashRequest],
  ]

  t.test('409 for every write: nothing changes', async (t) => {
    const before = await readTask(manager, task.id)
    for (const [operation, request] of writes) {
      const { status, body } = await service.call(operation, { token: manager.token, ...request })
      t.equal(status, 409, operation)
      t.match(body, { code: 'project_archived' }, operation)
    }
    t.strictSame(await readTask(manager, task.id), before)
    t.equal(await statusOf('updateTask', admin, { ...taskRequest, body: {} }), 409, 'an administrator')
    t.equal(await statusOf('updateTask', assignee, { ...taskRequest, body: {} }), 409, 'the assignee')
  })

  t.test('200 for reads', async (t) => {
    t.equal(await statusOf('getTask', viewer, taskRequest), 200)
    t.equal(await statusOf('listTaskTags', viewer, taskRequest), 200)
    t.equal(await statusOf('listTaskAttachments', viewer, taskRequest), 200)
    t.equal(await statusOf('downloadAttachment', viewer, attachment), 200)
    t.equal(await statusOf('getTrashedTask', editor, trashRequest), 200)
  })

  t.test('writes succeed after the project is unarchived', async (t) => {
    await setArchived(archived, false)
    t.equal(await statusOf('appendUpload', manager, chunk), 204)
    t.equal(await statusOf('restoreTask', editor, trashRequest), 200)
    t.equal(await statusOf('updateTask', editor, { ...taskRequest, body: { title: 'Changed' } }), 200)
  })
})

t.test('lists', async (t) => {
  const reader = await service.register('reader')
  const other = await service.register('other-owner')
  const projectOf = async (member: Account, role: (typeof roles)[number]): Promise<string> => {
    const id = newId()
    await db.run('insert into projects (id, name, description) values ($1, $2, $3)', [id, 'Listed', ''])
    await join(id, other, 'manager')
    await join(id, member, role)
    return id
  }
  const [first, second] = [await projectOf(reader, 'editor'), await projectOf(reader, 'viewer')]
  const hidden = await projectOf(stranger, 'editor')
  const inTrash = await projectOf(reader, 'manager')

  const due = (day: number) => ({ due_on: `2027-01-0${day}` })
  const create = (account: Account, title: string, fields: object): Promise<Task> =>
    createTask(account, { title, ...fields })
  const own = await create(reader, 'Own apple', { ...due(5), priority: 'high' })
  const given = await create(other, 'Given apple', { assignee_id: reader.id, status: 'in_progress' })
  const inFirst = await create(other, 'First pear', { project_id: first, ...due(3) })
  const ownInFirst = await create(reader, 'First apple', { project_id: first, ...due(1) })
  const givenInFirst = await create(other, 'First fig', { project_id: first, assignee_id: reader.id })
  const inSecond = await create(other, 'Second pear', { project_id: second, ...due(2), status: 'done' })
  const givenInHidden = await create(other, 'Hidden fig', { project_id: hidden, assignee_id: reader.id })
  await create(other, 'Hidden apple', { project_id: hidden })
  await create(other, 'Foreign apple', {})
  await create(reader, 'Trashed apple', { project_id: inTrash })
  await trashProject(inTrash)
  const all = [own, given, inFirst, ownInFirst, givenInFirst, inSecond, givenInHidden]

  type List = 'listTasks' | 'listProjectTasks' | 'listUserTasks'
  const list = async (
    { token }: Account,
    query: Readonly<Record<string, string | number | boolean | readonly string[]>> = {},
    { operation = 'listTasks', params = {} }: { operation?: List; params?: Record<string, string> } = {},
  ) => (await service.expect(operation, 200, { token, query, params })).body
  const titlesOf = ({ items }: Schemas['TaskList']): string[] => items.map(({ title }) => title)
  const titles = (tasks: readonly Task[]): string[] => tasks.map(({ title }) => title)

  t.test('listTasks returns personal, assigned and project tasks, each once', async (t) => {
    const page = await list(reader, { include_total: true })
    t.strictSame(titlesOf(page), titles(all.toReversed()))
    t.equal(page.total, all.length)
    t.strictSame(
      page.items.find(({ id }) => id === inSecond.id),
      inSecond,
    )
  })

  t.test('orders, in pages in both directions', async (t) => {
    const sorts = ['created_at', 'updated_at', 'due', 'start', 'completed_at', 'priority', 'status', 'title']
    for (const sort of sorts.map((name, index) => (index % 2 === 0 ? name : `-${name}`))) {
      const whole = titlesOf(await list(reader, { sort }))
      t.strictSame(whole.toSorted(), titles(all).toSorted(), sort)
      const pages: string[][] = []
      let page = await list(reader, { sort, limit: 3 })
      pages.push(titlesOf(page))
      while (page.next_cursor !== null) {
        page = await list(reader, { sort, limit: 3, cursor: page.next_cursor })
        pages.push(titlesOf(page))
      }
      t.strictSame(pages.flat(), whole, sort)
      const back = await list(reader, { sort, limit: 3, cursor: page.prev_cursor ?? '' })
      t.strictSame(titlesOf(back), pages.at(-2), `${sort}: back`)
    }
  })

  t.test('search, and filters by project', async (t) => {
    t.strictSame(titlesOf(await list(reader, { q: 'apple' })), titles([ownInFirst, given, own]))
    const byProject: readonly (readonly [readonly string[], readonly Task[]])[] = [
      [[first], [givenInFirst, ownInFirst, inFirst]],
      [[first.toUpperCase()], [givenInFirst, ownInFirst, inFirst]],
      [[second], [inSecond]],
      [
        [first, second],
        [inSecond, givenInFirst, ownInFirst, inFirst],
      ],
      [['none'], [given, own]],
      [
        ['none', second],
        [inSecond, given, own],
      ],
      [[hidden], [givenInHidden]],
      [[inTrash], []],
      [[unknownId], []],
    ]
    for (const [project_id, tasks] of byProject) {
      const page = await list(reader, { project_id, include_total: true })
      t.strictSame(titlesOf(page), titles(tasks), project_id.join())
      t.equal(page.total, tasks.length)
    }
    const byExpression: readonly (readonly [string, readonly Task[]])[] = [
      [`project_id = ${first}`, [givenInFirst, ownInFirst, inFirst]],
      [`project_id = ${first} AND title:pear`, [inFirst]],
      [`project_id = ${first} OR project_id = ${second}`, [inSecond, givenInFirst, ownInFirst, inFirst]],
      [`project_id != ${first}`, [givenInHidden, inSecond]],
      ['NOT project_id:*', [given, own]],
      ['project_id:* AND assignee_id = me', [givenInHidden, givenInFirst]],
    ]
    for (const [filter, tasks] of byExpression)
      t.strictSame(titlesOf(await list(reader, { filter })), titles(tasks), filter)
    t.strictSame(
      titlesOf(await list(reader, { project_id: [first], sort: 'due', due_before: '2027-01-03' })),
      titles([ownInFirst]),
    )
    t.strictSame(
      titlesOf(await list(reader, { project_id: [first], assignee_id: ['me'] })),
      titles([givenInFirst]),
    )
  })

  t.test('400 for a cursor with another project filter', async (t) => {
    const { next_cursor } = await list(reader, { project_id: [first], limit: 1 })
    const query = { project_id: [second], cursor: next_cursor ?? '' }
    await service.expect('listTasks', 400, { token: reader.token, query })
    const page = await list(reader, { project_id: [first], cursor: next_cursor ?? '' })
    t.strictSame(titlesOf(page), titles([ownInFirst, inFirst]))
  })

  t.test('400 for a project that is not an id', async (t) => {
    for (const query of [{ project_id: ['me'] }, { filter: 'project_id = me' }, { filter: 'project_id > 1' }])
      t.equal(await statusOf('listTasks', reader, { query }), 400)
  })

  t.test('listProjectTasks', async (t) => {
    const of = (project_id: string) => ({ operation: 'listProjectTasks' as const, params: { project_id } })
    const page = await list(reader, { include_total: true }, of(first))
    t.strictSame(titlesOf(page), titles([givenInFirst, ownInFirst, inFirst]))
    t.equal(page.total, 3)
    t.strictSame(titlesOf(await list(reader, { sort: 'title' }, of(first))), [
      'First apple',
      'First fig',
      'First pear',
    ])
    t.strictSame(titlesOf(await list(reader, { q: 'pear' }, of(first))), titles([inFirst]))
    t.strictSame(titlesOf(await list(admin, {}, of(first))), titlesOf(page), 'an administrator')
    const { next_cursor } = await list(reader, { limit: 2 }, of(first))
    t.strictSame(titlesOf(await list(reader, { cursor: next_cursor ?? '' }, of(first))), titles([inFirst]))

    const projectStatus = (project_id: string, account: Account, query: Call['query'] = {}) =>
      statusOf('listProjectTasks', account, { params: { project_id }, query })
    t.equal(await projectStatus(first, stranger), 404)
    t.equal(await projectStatus(hidden, reader), 404, 'an assignee who is no member')
    t.equal(await projectStatus(inTrash, reader), 404)
    t.equal(await projectStatus(unknownId, reader), 404)
    t.equal(await projectStatus(first, reader, { sort: 'due,-due' }), 400)
  })

  t.test('listUserTasks returns the tasks that the caller can see', async (t) => {
    const of = { operation: 'listUserTasks' as const, params: { user_id: reader.id } }
    t.strictSame(
      titlesOf(await list(reader, {}, of)),
      titles([givenInHidden, givenInFirst, ownInFirst, given, own]),
    )
    t.strictSame(
      titlesOf(await list(stranger, {}, of)),
      titles([givenInHidden]),
      'a member of the hidden project',
    )
    t.strictSame(titlesOf(await list(admin, {}, of)), titlesOf(await list(reader, {}, of)))
  })

  t.test('administrators list the tasks of all projects only with all=true', async (t) => {
    t.strictSame(titlesOf(await list(admin, { project_id: [first] })), [])
    const page = await list(admin, { project_id: [first], all: true })
    t.strictSame(titlesOf(page), titles([givenInFirst, ownInFirst, inFirst]))
    t.strictSame(titlesOf(await list(admin, { project_id: [inTrash], all: true })), [])
  })

  t.test('expand=project includes the project if the caller can see it', async (t) => {
    const expanded = await list(reader, { expand: 'project', q: 'fig' })
    t.match(
      expanded.items.map(({ title, project }) => [title, project?.id, project?.role]),
      [
        ['Hidden fig', undefined, undefined],
        ['First fig', first, 'editor'],
      ],
      'only if the caller can see the project',
    )
    const request = { params: { task_id: ownInFirst.id }, query: { expand: 'project' } }
    const { body } = await service.expect('getTask', 200, { token: reader.token, ...request })
    const { project, ...plain } = body
    t.strictSame(plain, ownInFirst)
    const seen = { token: reader.token, params: { project_id: first } }
    t.strictSame(project, (await service.expect('getProject', 200, seen)).body)
    const put = { token: reader.token, params: { task_id: ownInFirst.id }, body }
    await service.expect('replaceTask', 200, put)
    const { body: personal } = await service.expect('getTask', 200, {
      token: reader.token,
      params: { task_id: own.id },
      query: { expand: 'project' },
    })
    t.notOk('project' in personal)
  })
})

t.test('batch items have the results of the single operations', async (t) => {
  const batched = await newProject()
  const archived = await newProject()
  const hidden = newId()
  await db.run('insert into projects (id, name, description) values ($1, $2, $3)', [hidden, 'Hidden', ''])
  await join(hidden, stranger, 'manager')
  const tag = await createTag(manager, 'batched')

  const patches = [
    { title: 'Changed' },
    { owner_id: editor.id },
    { project_id: null },
    { project_id: hidden },
    { project_id: archived },
    { project_id: unknownId },
  ]
  const creations = [batched, archived, hidden].map((project_id) => ({ title: 'New', project_id }))
  type Item = readonly [status: number, code: string | undefined, pointers: readonly string[]]
  const newTasks = () => Promise.all([...patches, 'delete', 'tag', 'archived'].map(() => newTask(batched)))
  const archivedTasks = await Promise.all(['single', 'batch'].map(() => newTask(archived)))
  const personas = ['viewer', 'editor', 'assignee', 'stranger', 'admin'] as const
  const prepared = await Promise.all(
    personas.map(async (who) => ({ who, single: await newTasks(), batch: await newTasks() })),
  )
  await setArchived(archived, true)

  const single = async (
    operation: Parameters<typeof service.call>[0],
    { token }: Account,
    request: Call,
  ): Promise<Item> => {
    const { status, body } = await service.call(operation, { token, ...request })
    const problem = status < 300 ? undefined : (body as Schemas['Problem'])
    return [status, problem?.code, problem === undefined ? [] : pointersOf(problem)]
  }
  const itemOf = ({ status, problem }: Schemas['TaskBatchResult']): Item => {
    const pointers = problem === undefined ? [] : pointersOf(problem)
    const relative = pointers.map((pointer) => pointer.replace(/^\/\w+\/\d+(\/patch)?/, ''))
    return [status, problem?.code, relative.filter((pointer) => pointer !== '')]
  }

  for (const { who, ...tasks } of prepared) {
    const account = people[who]
    const ids = (of: readonly Task[]) => of.map(({ id }) => id)
    const [deletion = '', tagging = ''] = ids(tasks.single).slice(patches.length)
    const [singleTask, batchTask] = archivedTasks
    const expected = [
      ...(await Promise.all(creations.map((body) => single('createTask', account, { body })))),
      ...(await Promise.all(
        patches.map((body, index) =>
          single('updateTask', account, { params: { task_id: ids(tasks.single)[index] ?? '' }, body }),
        ),
      )),
      await single('updateTask', account, {
        params: { task_id: singleTask?.id ?? '' },
        body: { title: 'No' },
      }),
      await single('deleteTask', account, { params: { task_id: deletion } }),
      await single('addTaskTag', account, { params: { task_id: tagging, tag_id: tag.id } }),
    ]
    const [deleted = '', tagged = ''] = ids(tasks.batch).slice(patches.length)
    const { body } = await service.expect('batchTasks', 200, {
      token: account.token,
      body: {
        create: creations,
        update: [
          ...patches.map((item, index) => ({ task_id: ids(tasks.batch)[index], patch: item })),
          { task_id: batchTask?.id, patch: { title: 'No' } },
        ],
        delete: [{ task_id: deleted }],
        tag: [{ task_id: tagged, tag_id: tag.id }],
      },
    })
    const { create, update, delete: deletions, tag: tags } = body
    t.strictSame([...create, ...update, ...deletions, ...tags].map(itemOf), expected, who)
  }

  t.test('items of one task see the changes of earlier items', async (t) => {
    const task = await newTask(batched)
    const items = [{ project_id: null }, { title: 'Unseen' }].map((item) => ({
      task_id: task.id,
      patch: item,
    }))
    const { body } = await service.expect('batchTasks', 200, { token: editor.token, body: { update: items } })
    t.strictSame(
      body.update.map(({ status }) => status),
      [200, 404],
      'a personal task of another user',
    )
  })
})
