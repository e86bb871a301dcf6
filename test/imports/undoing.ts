import t from 'tap'
import { tasksPerBatch } from '../../src/db/tasks/sections.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { archiveFormat, archiveVersion, manifestName, partNames } from '../../src/interchange/archive.ts'
import type { TaskRecord } from '../../src/interchange/records.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { archiveOf, finishedExport } from '../fixture/exports.ts'
import {
  board,
  type ImportFile,
  importReaders,
  noImportRuns,
  ranImport,
  rowsOf,
  settledImport,
  table,
  uploadedImport,
} from '../fixture/imports.ts'
import { recurringRecord, taskRecord } from '../fixture/interchange.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import { zipOf } from '../fixture/zip.ts'

/** What of an import can be undone. */

const { db } = await openTestDatabase(t)
/** What happens after each transaction, before the next one of its work. */
let afterTransaction: () => Promise<void> = async () => undefined
const service = await startService(t, {
  db: {
    ...db,
    async transaction(...parameters) {
      const result = await db.transaction(...parameters)
      await afterTransaction()
      return result
    },
  },
  jobTimes: { ...jobTimes, events: 20 },
  config: { taskQuota: 40 },
})
const { createTask, addComment, attachFile } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const { tasksOf, projectsOf } = importReaders(service)
const { setArchived } = projectRows(db)
const admin = await service.register('admin')
let people = 0
/** Somebody without tasks. */
const newAccount = (): Promise<Account> => service.register(`person-${(people += 1)}`)

/** Lets somebody have any number of tasks. */
const allowTasks = async ({ id }: Account): Promise<void> => {
  await service.expect('updateUser', 200, {
    token: admin.token,
    params: { user_id: id },
    body: { task_quota: 0 },
  })
}

/** An export of this service with these tasks. */
const archive = async (tasks: readonly TaskRecord[]): Promise<ImportFile> => {
  const content = await zipOf({
    [manifestName]: JSON.stringify({ format: archiveFormat, version: archiveVersion, parts: [] }),
    [partNames.task]: tasks.map((task) => `${JSON.stringify(task)}\n`).join(''),
  })
  return { name: 'export.zip', content: new Uint8Array(content) }
}

t.test('moves what nobody has changed to the trash, and says what stays', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const ran = await ranImport(
    service,
    ada,
    table('id,title,parent', 'a,Above,', 'b,Below,a', 'c,Alone,', 'd,Kept,', 'e,Above the kept,', 'f,Deep,e'),
  )
  const tasks = await tasksOf(ada)
  const change = (title: string) =>
    service.expect('updateTask', 200, {
      token,
      params: { task_id: tasks.get(title)?.id ?? '' },
      body: { priority: 'high' },
    })
  await change('Kept')
  await change('Deep')
  const params = { import_id: ran.id }
  await service.expect('undoImport', 200, { token, params })
  t.match(await settledImport(service, ada, ran.id), {
    status: 'undone',
    result: { created: 6, undone: 3, kept: 3 },
  })
  t.strictSame(new Set((await tasksOf(ada)).keys()), new Set(['Kept', 'Deep', 'Above the kept']))
  const { body: trash } = await service.expect('listTrashedTasks', 200, { token })
  t.strictSame(new Set(trash.items.map(({ title }) => title)), new Set(['Above', 'Below', 'Alone']))
  t.match(await rowsOf(service, ada, ran.id, 'kept'), [
    { code: 'changed' },
    { code: 'changed' },
    { code: 'changed' },
  ])
  await service.expect('undoImport', 200, { token, params })
})

t.test('lets the same file be imported again', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const file = table('title,project', 'Personal,', 'Plant,Garden')
  const ran = await ranImport(service, ada, file)
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { result: { undone: 3, kept: 0 } })
  t.match((await ranImport(service, ada, file)).result, { created: 3, skipped: 0 })
})

t.test('moves more subtasks than one request may, tree by tree', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  await allowTasks(ada)
  const parents = Array.from({ length: 12 }, (_, n) => `p${n},Parent ${n},`)
  const children = Array.from({ length: 540 }, (_, n) => `c${n},Child ${n},p${n % 12}`)
  const ran = await ranImport(service, ada, table('id,title,parent', ...parents, ...children))
  t.match(ran.result, { created: 552 })
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { status: 'undone', result: { undone: 552, kept: 0 } })
})

t.test('moves a project that nobody has changed to the trash as a whole', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const ran = await ranImport(service, ada, board('Plant'))
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { status: 'undone', result: { undone: 3, kept: 0 } })
  const { body: trash } = await service.expect('listTrashedProjects', 200, { token })
  t.match(trash.items, [{ name: 'Garden' }])
})

/** More projects than are shown at once. */
const count = 120
const gardens = table(
  'title,project',
  ...Array.from({ length: count }, (_, number) => `Weed ${number},Garden ${number}`),
)

t.test('moves more projects than are shown at once', async (t) => {
  const ada = await newAccount()
  await allowTasks(ada)
  const { id: import_id } = await ranImport(service, ada, gardens)
  const projects = async () => {
    const query = { limit: 200 }
    return (await service.expect('listProjects', 200, { token: ada.token, query })).body.items
  }
  t.strictSame(
    (await projects()).map(({ role, open_task_count }) => [role, open_task_count]),
    Array.from({ length: count }, () => ['manager', 1]),
  )
  const params = { import_id }
  await service.expect('undoImport', 200, { token: ada.token, params })
  t.match((await settledImport(service, ada, import_id)).result, { undone: 2 * count, kept: 0 })
  t.strictSame(await projects(), [])
})

t.test('keeps the projects that are shown when an import fails, and moves them too', async (t) => {
  const { db } = service.deps
  const ada = await newAccount()
  await allowTasks(ada)
  const { id: import_id, version } = await uploadedImport(service, ada, gardens)
  const params = { import_id }
  const remove = () => db.run('drop function disable_owner cascade', [], 'once')
  await db.run(
    `create function disable_owner() returns trigger language plpgsql as
     $$ begin update users set is_disabled = true where id = '${ada.id}'; return null; end $$`,
    [],
    'once',
  )
  await db.run(
    `create trigger disable_owner after update on projects for each row
     when (old.deleted_at is not null and new.deleted_at is null) execute function disable_owner()`,
    [],
    'once',
  )
  await service.expect('runImport', 200, { token: ada.token, params, body: { version } })
  await noImportRuns(service).finally(remove)

  const enable = { params: { user_id: ada.id }, body: { is_disabled: false } }
  await service.expect('updateUser', 200, { token: admin.token, ...enable })
  const { email, password } = ada
  const { body } = await service.expect('login', 200, { body: { email, password } })
  const token = 'access_token' in body ? body.access_token : ''
  const read = async () => (await service.expect('getImport', 200, { token, params })).body
  const shown = 100
  const gone = 2 * (count - shown)
  t.match(await read(), {
    status: 'failed',
    failure: 'access_lost',
    result: { created: 2 * count, undone: gone },
  })
  const projects = async () =>
    (await service.expect('listProjects', 200, { token, query: { limit: 200 } })).body.items
  t.equal((await projects()).length, shown)
  await service.expect('undoImport', 200, { token, params })
  await noImportRuns(service)
  t.match(await read(), { status: 'undone', result: { undone: 2 * count, kept: 0 } })
  t.strictSame(await projects(), [])
})

t.test('keeps a project that somebody has changed', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const ran = await ranImport(service, ada, board('Plant', 'Water'))
  const [project] = await projectsOf(ada)
  await createTask(ada, { title: 'Mine', project_id: project?.id ?? '' })
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { status: 'undone', result: { undone: 3, kept: 1 } })
  t.strictSame([...(await tasksOf(ada, { project_id: project?.id ?? '' })).keys()], ['Mine'])
  const params = { project_id: project?.id ?? '' }
  const { body: sections } = await service.expect('listProjectSections', 200, { token, params })
  t.strictSame(sections.items, [], 'a section that is empty again is gone')
})

t.test('deletes a section that it has begun to empty, whatever happens to it meanwhile', async (t) => {
  const ada = await newAccount()
  await allowTasks(ada)
  const { token } = ada
  const happenings: Readonly<Record<string, (project_id: string, section_id: string) => Promise<unknown>>> = {
    'a task is put in it': (project_id, section_id) =>
      createTask(ada, { title: 'Mine', project_id, section_id }),
    'it is renamed': (project_id, section_id) =>
      service.expect('updateSection', 200, {
        token,
        params: { project_id, section_id },
        body: { name: 'Other' },
      }),
    'the project is archived': (project_id) => setArchived(project_id, true),
  }
  for (const [what, happens] of Object.entries(happenings)) {
    const project = await createProject(ada, 'House')
    const cards = Array.from({ length: tasksPerBatch + 1 }, (_, n) => `Paint ${n}`)
    const ran = await ranImport(service, ada, board(...cards), { project_id: project.id })
    const params = { project_id: project.id }
    const { body: sections } = await service.expect('listProjectSections', 200, { token, params })
    const [section] = sections.items
    const tasksIn = async (): Promise<number> => {
      const [row] = await db.run('select count(*)::int as n from tasks where section_id = $1', [
        section?.id ?? '',
      ])
      return Number(row?.n)
    }
    afterTransaction = async () => {
      if ((await tasksIn()) !== 1) return
      afterTransaction = async () => undefined
      await happens(project.id, section?.id ?? '')
    }
    await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
    t.match(
      await settledImport(service, ada, ran.id),
      { status: 'undone', result: { undone: cards.length + 1, kept: 0 } },
      what,
    )
    t.equal(await tasksIn(), 0)
    const { body: left } = await service.expect('listProjectSections', 200, { token, params })
    t.strictSame(left.items, [], what)
  }
})

t.test('says of everything whether it is gone, and why it stays', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const project = await createProject(ada, 'House')
  const file = board({ id: 'Paint', comment: 'Blue?' }, { id: 'Tile', comment: 'White?' })
  const ran = await ranImport(service, ada, file, { project_id: project.id })
  t.match(ran.result, { created: 5 })
  const tasks = await tasksOf(ada, { project_id: project.id })
  const params = { task_id: tasks.get('Tile')?.id ?? '' }
  await service.expect('updateTask', 200, { token, params, body: { priority: 'high' } })
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { result: { created: 5, undone: 2, kept: 3 } })
  const rows = await rowsOf(service, ada, ran.id)
  t.strictSame(
    new Set(rows.map(({ type, outcome, code }) => `${type ?? ''} ${outcome} ${code ?? ''}`)),
    new Set([
      'section kept changed',
      'task undone ',
      'task kept changed',
      'comment undone ',
      'comment kept changed',
    ]),
  )
})

t.test('keeps what may not be deleted any more', async (t) => {
  const [ada, bob] = [await newAccount(), await newAccount()]
  const { token } = ada
  const project = await createProject(bob, 'House')
  await setMember(bob, project, ada, 'editor')
  const ran = await ranImport(service, ada, board('Paint'), { project_id: project.id })
  await setMember(bob, project, ada, 'viewer')
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { result: { undone: 0, kept: 2 } })
  t.match(await rowsOf(service, ada, ran.id, 'kept'), [{ code: 'not_allowed' }, { code: 'not_allowed' }])
})

t.test('moves a subtask with its parent, wherever the ids were given', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  await allowTasks(ada)
  const rule = { rule: 'FREQ=DAILY', time_zone: 'UTC' }
  const occurrence = (n: number, fields: Partial<TaskRecord>) =>
    recurringRecord({ id: `day ${n}`, due_on: `2090-01-0${n}`, series_id: 's', ...fields }, rule)
  // The first occurrence names the second one, which gets its id before its parent does.
  const file = await archive([
    occurrence(1, { status: 'done', next_task_id: 'day 2' }),
    ...Array.from({ length: 60 }, (_, n) => taskRecord({ id: `${n}` })),
    taskRecord({ id: 'parent', title: 'Parent' }),
    occurrence(2, { occurrence_number: 2, parent_id: 'parent' }),
  ])
  const ran = await ranImport(service, ada, file)
  t.match(ran.result, { created: 63 })
  const { occurrence: first } = (await tasksOf(ada)).get('Task day 1') ?? {}
  const { id = '', parent_id } = (await tasksOf(ada)).get('Task day 2') ?? {}
  t.ok(first?.next_task_id === id && id < (parent_id ?? ''))
  await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
  t.match(await settledImport(service, ada, ran.id), { status: 'undone', result: { undone: 63, kept: 0 } })
  await service.expect('restoreTask', 200, { token, params: { task_id: parent_id ?? '' } })
  t.strictSame(new Set((await tasksOf(ada)).keys()), new Set(['Parent', 'Task day 2']), 'as one tree')
})

t.test('counts what is decided', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const file = board({ id: 'Plant', comment: 'Which?' }, 'Water')
  const undone = async () => {
    const ran = await ranImport(service, ada, file)
    await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
    return settledImport(service, ada, ran.id)
  }
  t.match(await undone(), { result: { undone: 5, kept: 0 }, progress: { done: 5, total: 5 } })
})

t.test('moves a tree that is too large for one request from below', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  await allowTasks(ada)
  const below = (parent: string, count: number) =>
    Array.from({ length: count }, (_, n) => `${parent}.${n},Below ${parent} ${n},${parent}`)
  const file = table('id,title,parent', 'r,Root,', 'm,Middle,r', ...below('m', 505), ...below('r', 505))
  const undone = async (change = (): Promise<unknown> => Promise.resolve()) => {
    const ran = await ranImport(service, ada, file)
    t.match(ran.result, { created: 1_012 })
    await change()
    await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
    return settledImport(service, ada, ran.id)
  }
  t.match(await undone(), { result: { undone: 1_012, kept: 0 }, progress: { done: 1_012, total: 1_012 } })
  t.equal((await tasksOf(ada)).size, 0)

  const changeOne = async () => {
    const query = { q: '"Below m 504"' }
    const { body } = await service.expect('listTasks', 200, { token, query })
    const params = { task_id: body.items[0]?.id ?? '' }
    await service.expect('updateTask', 200, { token, params, body: { priority: 'high' } })
  }
  const { id, result } = await undone(changeOne)
  t.match(result, { undone: 1_009, kept: 3 })
  t.strictSame(new Set((await tasksOf(ada)).keys()), new Set(['Root', 'Middle', 'Below m 504']))
  t.match(await rowsOf(service, ada, id, 'kept'), [
    { code: 'changed' },
    { code: 'changed' },
    { code: 'changed' },
  ])
})

t.test('keeps a task that somebody has worked on', async (t) => {
  const works: Readonly<Record<string, (ada: Account, taskId: string) => Promise<unknown>>> = {
    'a comment is edited': async ({ token }, task_id) => {
      const { body } = await service.expect('listTaskComments', 200, { token, params: { task_id } })
      const params = { comment_id: body.items[0]?.id ?? '' }
      await service.expect('updateComment', 200, { token, params, body: { body: 'This one.' } })
    },
    'a comment is added': (ada, id) => addComment(ada, id),
    'a file is attached': (ada, id) => attachFile(ada, id),
    'a subtask is added': (ada, id) => createTask(ada, { title: 'Mine', parent_id: id }),
    'it duplicates another task': async (ada, task_id) => {
      const { id: other_task_id } = await createTask(ada, { title: 'Mine' })
      const params = { task_id, kind: 'duplicates', other_task_id } as const
      await service.expect('addTaskRelation', 204, { token: ada.token, params })
    },
    'another task blocks it': async (ada, other_task_id) => {
      const { id: task_id } = await createTask(ada, { title: 'Mine' })
      const params = { task_id, kind: 'blocks', other_task_id } as const
      await service.expect('addTaskRelation', 204, { token: ada.token, params })
    },
  }
  for (const [name, work] of Object.entries(works))
    for (const isNew of [true, false])
      await t.test(`${name} in a ${isNew ? 'new' : 'present'} project`, async (t) => {
        const ada = await newAccount()
        const { token } = ada
        const project_id = isNew ? null : (await createProject(ada, 'House')).id
        const ran = await ranImport(service, ada, board({ id: 'Plant', comment: 'Which?' }, 'Water'), {
          project_id,
          users: [{ source_id: 'm1', user_id: ada.id }],
        })
        const query = { project_id: (await projectsOf(ada))[0]?.id ?? '' }
        await work(ada, (await tasksOf(ada, query)).get('Plant')?.id ?? '')
        await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
        t.match((await settledImport(service, ada, ran.id)).result, { undone: 1, kept: isNew ? 4 : 3 })
        t.match(await rowsOf(service, ada, ran.id, 'undone'), [{ type: 'task', source_id: 'Water' }])
      })
})

t.test('moves what has edited comments and relations from the file', async (t) => {
  const [ada, bob] = [await newAccount(), await newAccount()]
  const project = await createProject(ada)
  for (const project_id of [project.id, null]) {
    const { id: task_id } = await createTask(ada, { title: 'One', project_id })
    const { id: other_task_id } = await createTask(ada, { title: 'Other', project_id })
    for (const kind of ['relates_to', 'blocks'] as const)
      await service.expect('addTaskRelation', 204, {
        token: ada.token,
        params: { task_id, kind, other_task_id },
      })
    const params = { comment_id: await addComment(ada, task_id) }
    await service.expect('updateComment', 200, { token: ada.token, params, body: { body: 'Better' } })
  }
  const content = await archiveOf(service, ada, await finishedExport(service, ada))
  const ran = await ranImport(service, bob, { name: 'export.zip', content })
  t.match(ran.result, { created: 11 })
  await service.expect('undoImport', 200, { token: bob.token, params: { import_id: ran.id } })
  t.match((await settledImport(service, bob, ran.id)).result, { undone: 11, kept: 0 })
})

t.test('keeps a project of which somebody has changed the sections', async (t) => {
  const works: Readonly<
    Record<string, (ada: Account, project_id: string, section_id: string) => Promise<unknown>>
  > = {
    created: ({ token }, project_id) =>
      service.expect('createSection', 201, { token, params: { project_id }, body: { name: 'Mine' } }),
    renamed: ({ token }, project_id, section_id) =>
      service.expect('updateSection', 200, {
        token,
        params: { project_id, section_id },
        body: { name: 'Mine' },
      }),
  }
  for (const [name, work] of Object.entries(works))
    await t.test(name, async (t) => {
      const ada = await newAccount()
      const { token } = ada
      const ran = await ranImport(service, ada, board('Plant'))
      const project_id = (await projectsOf(ada))[0]?.id ?? ''
      const { body } = await service.expect('listProjectSections', 200, { token, params: { project_id } })
      await work(ada, project_id, body.items[0]?.id ?? '')
      await service.expect('undoImport', 200, { token, params: { import_id: ran.id } })
      await settledImport(service, ada, ran.id)
      const kept = await rowsOf(service, ada, ran.id, 'kept')
      t.strictSame(
        kept.map(({ type, code }) => [type, code]),
        name === 'created'
          ? [['project', 'changed']]
          : [
              ['project', 'changed'],
              ['section', 'changed'],
            ],
      )
      const { body: left } = await service.expect('listProjectSections', 200, {
        token,
        params: { project_id },
      })
      t.match(left.items, [{ name: 'Mine' }])
    })
})
