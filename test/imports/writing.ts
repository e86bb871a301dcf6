import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { fireDueReminders } from '../../src/db/tasks/due-reminders.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { purgeDeleted } from '../../src/db/tasks/purge.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { eventually } from '../fixture/eventually.ts'
import { archiveOf, entriesOf, finishedExport, type Records, recordsOf } from '../fixture/exports.ts'
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
import { projectActions } from '../fixture/projects.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { openStorageFor } from '../fixture/storage.ts'
import { taskActions } from '../fixture/tasks.ts'

/** What an import makes of a file. */

const storage = await openStorageFor(`/tmp/taskwright-import-writing-${process.pid}`)
/** Resolves when files may be stored. */
let mayStore = Promise.resolve()
const service = await startService(t, {
  jobTimes: { ...jobTimes, events: 20 },
  config: { taskQuota: 40 },
  storage: {
    ...storage,
    put: async (...args) => {
      await mayStore
      return storage.put(...args)
    },
  },
})
const { createTask, createTag, addComment, attachFile } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const { tasksOf, projectsOf } = importReaders(service)
const admin = await service.register('admin')
let people = 0
/** Somebody without tasks. */
const newAccount = (): Promise<Account> => service.register(`person-${(people += 1)}`)

t.test('a table is previewed, and becomes personal tasks', async (t) => {
  const ada = await newAccount()
  const ready = await uploadedImport(
    service,
    ada,
    table('title,due,tags', 'Water the plants,2090-05-01,home', ',2090-01-01,', 'Buy milk,never,'),
  )
  t.match(ready, {
    status: 'ready',
    format: 'csv',
    csv: { delimiter: ',', columns: ['title', 'due', 'tags'], names: ['title', 'due', 'tags'] },
    preview: { tasks: 1, tags: 1, refused: 2, altered: 0 },
    result: null,
  })
  const previewed = [
    { outcome: 'refused', row: 3, field: 'title', code: 'invalid' },
    { outcome: 'refused', row: 4, field: 'due', code: 'invalid_value' },
  ]
  t.match(await rowsOf(service, ada, ready.id), previewed)
  t.equal((await tasksOf(ada)).size, 0, 'nothing is imported yet')

  const run = { token: ada.token, params: { import_id: ready.id }, body: { version: ready.version } }
  await service.expect('runImport', 200, run)
  t.match(await settledImport(service, ada, ready.id), {
    status: 'finished',
    result: { created: 1, skipped: 0, refused: 2 },
  })
  const inbox = await service.expect('listNotifications', 200, { token: ada.token })
  t.match(inbox.body.items, [{ reason: 'import', import_id: ready.id, task_id: null }])
  const [created, ...others] = await rowsOf(service, ada, ready.id)
  t.match(others, previewed)
  const task_id = created?.resource_id ?? ''
  const { body: task } = await service.expect('getTask', 200, { token: ada.token, params: { task_id } })
  t.match(task, {
    title: 'Water the plants',
    due_on: '2090-05-01',
    owner_id: ada.id,
    version: 1,
    tags: [{ name: 'home' }],
  })
  const history = await service.expect('listTaskEvents', 200, { token: ada.token, params: { task_id } })
  t.match(history.body.items, [{ type: 'task.imported', actor_id: ada.id, resource_id: ready.id }])
})

t.test('reminders relative to a date, which have no time of day in other products', async (t) => {
  const ada = await newAccount()
  const board = {
    id: '5f0000000000000000000001',
    name: 'Garden',
    lists: [],
    cards: [{ id: 'a', name: 'Water the plants', due: '2090-05-01T08:00:00.000Z', dueReminder: 60 }],
  }
  const file = { name: 'board.json', content: JSON.stringify(board) }
  t.match(await ranImport(service, ada, file), { status: 'finished', result: { created: 2, refused: 0 } })
  const { body } = await service.expect('listTasks', 200, { token: ada.token })
  const task_id = body.items[0]?.id ?? ''
  const reminders = await service.expect('listReminders', 200, { token: ada.token, query: { task_id } })
  t.match(reminders.body.items, [
    {
      relative_to: 'due',
      offset_minutes: -60,
      time_of_day: '09:00',
      remind_at: '2090-05-01T07:00:00.000Z',
      is_pending: true,
    },
  ])
})

t.test('reminders of done tasks take no room from those of open ones', async (t) => {
  const ada = await newAccount()
  const { id: task_id } = await taskActions(service).createTask(ada)
  await service.deps.db.run(
    `insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
     select event_id(now(), n), $2, $1, 'due', 0, '09:00' from generate_series(1, 999) n`,
    [ada.id, task_id],
  )
  const card = { due: '2090-05-01T08:00:00.000Z', dueReminder: 60 }
  const cards = [
    { id: 'a', name: 'Done', dueComplete: true, ...card },
    { id: 'b', name: 'Open', ...card },
    { id: 'c', name: 'One too many', ...card },
  ]
  const board = { id: '5f0000000000000000000002', name: 'Garden', lists: [], cards }
  await ranImport(service, ada, { name: 'board.json', content: JSON.stringify(board) })
  const query = { remind_after: '2090-01-01T00:00:00.000Z' }
  const { body } = await service.expect('listReminders', 200, { token: ada.token, query })
  t.equal(body.items.length, 2)
})

t.test('a task is created no later than it is completed', async (t) => {
  const ada = await newAccount()
  const file = table(
    'title,status,created,completed',
    'Only the end,done,,2026-03-02T10:00:00Z',
    'On one day,done,2026-03-02T10:00:00Z,2026-03-02',
    'Both,done,2026-03-01T10:00:00Z,2026-03-02T10:00:00Z',
    'In the future,done,2090-03-01T10:00:00Z,2090-03-02T10:00:00Z',
    'Open,todo,,',
  )
  t.match(await ranImport(service, ada, file), { status: 'finished', result: { created: 5, refused: 0 } })
  const tasks = await tasksOf(ada)
  t.match(tasks.get('Only the end'), {
    created_at: '2026-03-02T10:00:00.000Z',
    completed_at: '2026-03-02T10:00:00.000Z',
  })
  t.match(tasks.get('On one day'), {
    created_at: '2026-03-02T00:00:00.000Z',
    completed_at: '2026-03-02T00:00:00.000Z',
  })
  t.match(tasks.get('Both'), {
    created_at: '2026-03-01T10:00:00.000Z',
    completed_at: '2026-03-02T10:00:00.000Z',
  })
  const late = tasks.get('In the future')
  t.equal(late?.completed_at, late?.created_at)
  t.match(tasks.get('Open'), { completed_at: null })
})

t.test('what was exported is the same again in an empty installation', async (t) => {
  const [ada, carl] = [await newAccount(), await newAccount()]
  const { token } = ada
  const [project, old] = [await createProject(ada, 'Garden'), await createProject(ada, 'Old house')]
  await setMember(ada, project, carl, 'editor')
  const params = { project_id: project.id }
  const newSection = async (name: string) =>
    (await service.expect('createSection', 201, { token, params, body: { name } })).body.id
  const [back, front] = [await newSection('Back'), await newSection('Front')]
  const tag = await createTag(ada, 'urgent', { color: '#112233', project_id: project.id })
  const own = await createTag(ada, 'home', { color: '#445566' })
  const parent = await createTask(ada, {
    title: 'Water the plants',
    description: 'All of them.',
    priority: 'high',
    due_at: '2090-01-06T09:00:00Z',
    project_id: project.id,
    section_id: front,
    tag_ids: [tag.id],
    metadata: { origin: 'paper' },
    external_source: 'notebook',
    external_id: '17',
    recurrence: { rule: 'FREQ=WEEKLY', time_zone: 'Europe/Berlin' },
  })
  const child = await createTask(ada, { title: 'Fill the can', parent_id: parent.id })
  const second = await createTask(ada, { title: 'Dig', project_id: project.id, section_id: back })
  const first = await createTask(ada, { title: 'Rake', project_id: project.id, section_id: back })
  const moved = { token, params: { task_id: first.id }, body: { before: second.id } }
  await service.expect('moveTask', 200, moved)
  const done = await createTask(ada, {
    title: 'Sow',
    status: 'done',
    start_on: '2020-01-01',
    tag_ids: [own.id],
  })
  const daily = await createTask(ada, {
    title: 'Feed the cat',
    due_on: '2090-01-06',
    recurrence: { rule: 'FREQ=DAILY', time_zone: 'Europe/Berlin' },
  })
  for (const anchor of ['start', 'due'])
    await createTask(ada, {
      title: `May, by its ${anchor}`,
      start_on: '2090-05-01',
      due_on: '2090-05-31',
      recurrence: { rule: 'FREQ=MONTHLY', anchor },
    })
  const close = { token, params: { task_id: daily.id }, body: { status: 'done' as const } }
  await service.expect('updateTask', 200, close)
  await createTask(ada, { title: 'Move out', status: 'cancelled', project_id: old.id, due_on: '2024-02-29' })
  await service.expect('archiveProject', 200, { token, params: { project_id: old.id } })
  await addComment(ada, parent.id, 'From Ada')
  await addComment(carl, parent.id, 'From Carl')
  await attachFile(ada, child.id)
  for (const kind of ['blocks', 'relates_to'] as const) {
    const relation = { task_id: done.id, kind, other_task_id: parent.id }
    await service.expect('addTaskRelation', 204, { token, params: relation })
  }
  const remind = { token, params: { task_id: parent.id }, body: { relative_to: 'due', offset_minutes: -60 } }
  const { body: reminder } = await service.expect('createReminder', 201, remind)
  const snoozed_until = '2090-01-06T08:30:00.000Z'
  const snooze = { token, params: { reminder_id: reminder.id }, body: { snoozed_until } }
  await service.expect('updateReminder', 200, snooze)
  const archive = await archiveOf(service, ada, await finishedExport(service, ada))

  const empty = await startService(t, { jobTimes: { ...jobTimes, events: 20 } })
  const bob = await empty.register('bob')
  const ran = await ranImport(
    empty,
    bob,
    { name: 'export.zip', content: archive },
    { users: [{ source_id: ada.id, user_id: bob.id }] },
  )
  t.match(ran, {
    status: 'finished',
    format: 'taskwright',
    failure: null,
    result: { refused: 0, skipped: 0 },
  })
  t.match(ran.preview, { projects: 2, sections: 2, tasks: 10, comments: 2, relations: 2, attachments: 1 })
  const exported = recordsOf(await entriesOf(archive))
  const again = recordsOf(await entriesOf(await archiveOf(empty, bob, await finishedExport(empty, bob))))
  const names = Object.keys(exported)
  t.ok(names.length >= 8)
  for (const name of names) t.strictSame(comparable(again, name), comparable(exported, name), name)
  t.strictSame(titlesIn(exported, 'Back'), ['Rake', 'Dig'])
  t.strictSame(titlesIn(again, 'Back'), ['Rake', 'Dig'], 'in the same order')
  const sectionsOf = ({ sections = [] }: Records) => sections.map(({ name }) => name)
  t.strictSame(sectionsOf(again), sectionsOf(exported))
  const reminders = await empty.expect('listReminders', 200, { token: bob.token })
  t.match(reminders.body.items, [{ snoozed_until, remind_at: snoozed_until, is_pending: true }])

  const garden = await empty.expect('listProjects', 200, { token: bob.token })
  t.equal(garden.body.items.find(({ name }) => name === 'Garden')?.member_count, 1, 'nobody becomes a member')
  const { body: tasks } = await empty.expect('listTasks', 200, { token: bob.token, query: { q: 'Water' } })
  const request = { token: bob.token, params: { task_id: tasks.items[0]?.id ?? '' } }
  const { body: comments } = await empty.expect('listTaskComments', 200, request)
  t.match(
    new Map(comments.items.map(({ body, author_id, author_name }) => [body, [author_id, author_name]])),
    new Map([
      ['From Ada', [bob.id, null]],
      ['From Carl', [null, carl.user.username]],
    ]),
    'a comment of somebody else has no account',
  )
})

/**
 * Records of a kind. Ids are replaced by what they stand for; what tells who wrote something, and when it was last changed, is left out. The
 * order is that of the ids, and two tasks that relate to each other are in the order of their ids, too.
 */
const comparable = (records: Records, kind: string): unknown => {
  const labels = new Map<unknown, string>()
  for (const [name, kindRecords] of Object.entries(records))
    for (const record of kindRecords) {
      const label = `${name} ${JSON.stringify(record.title ?? record.name ?? record.body)}`
      labels.set(record.id, name === 'users' ? 'user' : label)
      if (record.series_id != null && !labels.has(record.series_id))
        labels.set(record.series_id, `series of ${label}`)
    }
  const label = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(label) : (labels.get(value) ?? value)
  const left = new Set(['updated_at', 'version', 'uploaded_by', 'author_id', 'author_name'])
  const plain = (record: Records[string][number]) => {
    const entries = Object.entries(record).flatMap(([name, value]) =>
      left.has(name) ? [] : [[name, label(value)] as const],
    )
    return record.kind === 'relates_to' ? entries.map(([, value]) => String(value)).toSorted() : entries
  }
  return kind === 'users' ? [] : new Set((records[kind] ?? []).map((record) => JSON.stringify(plain(record))))
}

/** The titles of the tasks in a section of an export, in their order. */
const titlesIn = ({ sections = [], tasks = [] }: Records, name: string) => {
  const section = sections.find((one) => one.name === name)
  return tasks.filter(({ section_id }) => section_id === section?.id).map(({ title }) => title)
}

t.test('attached files have the same bytes', async (t) => {
  const [ada, bob] = [await newAccount(), await newAccount()]
  const task = await createTask(ada, { title: 'With a file' })
  await attachFile(ada, task.id)
  const archive = await archiveOf(service, ada, await finishedExport(service, ada))
  await ranImport(service, bob, { name: 'export.zip', content: archive })
  const copy = (await tasksOf(bob)).get('With a file')
  t.equal(copy?.attachment_count, 1)
  const params = { task_id: copy?.id ?? '' }
  const { body } = await service.expect('listTaskAttachments', 200, { token: bob.token, params })
  t.match(body.items, [
    { file_name: 'notes.txt', sha256: createHash('sha256').update('hello').digest('hex') },
  ])
  const response = await fetch(`${service.url}/attachments/${body.items[0]?.id ?? ''}`, {
    headers: { authorization: `Bearer ${bob.token}` },
  })
  t.equal(await response.text(), 'hello')
})

t.test('a project of the file is new, and is gone if the import fails', async (t) => {
  const ada = await newAccount()
  const params = { user_id: ada.id }
  await service.expect('updateUser', 200, { token: admin.token, params, body: { task_quota: 110 } })
  const rows = Array.from({ length: 150 }, (_, n) => `Task ${n},Garden`)
  const failed = await ranImport(service, ada, table('title,project', ...rows))
  const { created = 0, undone } = failed.result ?? {}
  t.match(failed, { status: 'failed', failure: 'quota_exceeded' })
  t.ok(created > 50)
  t.equal(undone, created, 'the report says that all is gone again')
  t.strictSame(await rowsOf(service, ada, failed.id, 'created'), [])
  t.equal((await projectsOf(ada)).length, 0)
  const { body: trash } = await service.expect('listTrashedProjects', 200, { token: ada.token })
  t.equal(trash.items.length, 0)

  const ran = await ranImport(service, ada, table('title,project', ...rows.slice(0, 5)))
  t.match(
    ran,
    { status: 'finished', result: { created: 6, skipped: 0, refused: 0 } },
    'nothing is left of it',
  )
  t.match(await projectsOf(ada), [{ name: 'Garden', role: 'manager', open_task_count: 5 }])
})

/** The archive of a project with a section, whose task has a file; with `related`, also of a personal task that relates to that one. */
const projectArchive = async ({ related = false } = {}): Promise<ImportFile> => {
  const bob = await newAccount()
  const { id: project_id } = await createProject(bob)
  const { token } = bob
  const { body: section } = await service.expect('createSection', 201, {
    token,
    params: { project_id },
    body: { name: 'To do' },
  })
  const task = await createTask(bob, { title: 'With a file', project_id, section_id: section.id })
  await attachFile(bob, task.id)
  if (related) {
    const personal = await createTask(bob, { title: 'Personal' })
    const params = { task_id: task.id, kind: 'relates_to', other_task_id: personal.id }
    await service.expect('addTaskRelation', 204, { token, params })
  }
  return { name: 'export.zip', content: await archiveOf(service, bob, await finishedExport(service, bob)) }
}

/** Runs an archive until it has written its project, or into another one, and the task, and waits to store the file. */
const runUntilFile = async (
  t: Test,
  importer: Account,
  patch: object = {},
  archive: Promise<ImportFile> = projectArchive(),
) => {
  const { id: import_id } = await uploadedImport(service, importer, await archive)
  const params = { import_id }
  const request = { token: importer.token, params }
  await service.expect('updateImport', 200, { ...request, body: patch })
  const { version } = await settledImport(service, importer, import_id)
  const { promise, resolve } = Promise.withResolvers<void>()
  mayStore = promise
  t.teardown(resolve)
  await service.expect('runImport', 200, { ...request, body: { version } })
  let id = ''
  await eventually('the project is filled', async () => {
    const [row] = await service.deps.db.run(
      `select tasks.project_id from tasks join import_records on resource_id = tasks.id where import_id = $1 and tasks.project_id is not null`,
      [import_id],
    )
    if (row !== undefined) id = String(row.project_id)
    return row !== undefined
  })
  return { request, project: { project_id: id }, goOn: resolve }
}

t.test('nobody sees or restores a project before it is complete', async (t) => {
  const ada = await newAccount()
  const { request, project, goOn } = await runUntilFile(t, ada)
  for (const { token } of [ada, admin]) {
    await service.expect('getProject', 404, { token, params: project })
    await service.expect('restoreProject', 404, { token, params: project })
    await service.expect('deleteTrashedProject', 404, { token, params: project })
    const all = token === admin.token ? { all: true } : {}
    const { body } = await service.expect('listTrashedProjects', 200, { token, query: all })
    t.notOk(body.items.some(({ id }) => id === project.project_id))
  }
  goOn()
  t.match(await settledImport(service, ada, request.params.import_id), { status: 'finished' })
  t.match(await projectsOf(ada), [{ id: project.project_id, role: 'manager' }])
})

t.test('the import of somebody who is disabled or deleted ends, and its project goes', async (t) => {
  const ada = await newAccount()
  const { request, project, goOn } = await runUntilFile(t, ada)
  const setDisabled = (is_disabled: boolean) =>
    service.expect('updateUser', 200, {
      token: admin.token,
      params: { user_id: ada.id },
      body: { is_disabled },
    })
  await setDisabled(true)
  goOn()
  await noImportRuns(service)
  await setDisabled(false)
  const { email, password } = ada
  const { body } = await service.expect('login', 200, { body: { email, password } })
  const token = 'access_token' in body ? body.access_token : ''
  const { body: ended } = await service.expect('getImport', 200, { ...request, token })
  t.match(ended, { status: 'failed', failure: 'access_lost', result: { created: 3, undone: 3 } })

  const zoe = await newAccount()
  const zoesImport = await runUntilFile(t, zoe)
  await service.expect('deleteUser', 204, { token: zoe.token, params: { user_id: 'me' } })
  zoesImport.goOn()
  await noImportRuns(service)
  await purgeDeleted(service.deps.db, new AbortController().signal)
  const ids = [project.project_id, zoesImport.project.project_id, zoe.id]
  const left = await service.deps.db.run(
    `select from projects where id in ($1, $2) union all select from users where id = $3`,
    ids,
  )
  t.equal(left.length, 0, 'the projects, and the deleted user')
})

t.test(
  'what was imported into a project that is moved to the trash comes back with it, and can be undone',
  async (t) => {
    const ada = await newAccount()
    const { id: project_id } = await createProject(ada)
    const { request, project, goOn } = await runUntilFile(t, ada, { project_id })
    t.equal(project.project_id, project_id)
    await service.expect('deleteProject', 204, { token: ada.token, params: project })
    goOn()
    const ended = await settledImport(service, ada, request.params.import_id)
    t.match(ended, { status: 'failed', failure: 'access_lost', result: { created: 2, undone: 0 } })
    await service.expect('restoreProject', 200, { token: ada.token, params: project })
    t.equal((await tasksOf(ada, project)).size, 1)
    await service.expect('undoImport', 200, request)
    t.match(await settledImport(service, ada, request.params.import_id), {
      status: 'undone',
      result: { undone: 2, kept: 0 },
    })
    t.equal((await tasksOf(ada, project)).size, 0)
  },
)

t.test('what was imported beside a project that is discarded can be undone at once', async (t) => {
  const ada = await newAccount()
  const { request, goOn } = await runUntilFile(t, ada, {}, projectArchive({ related: true }))
  await service.expect('cancelImport', 200, request)
  goOn()
  t.match(await settledImport(service, ada, request.params.import_id), { status: 'cancelled' })
  t.strictSame([...(await tasksOf(ada)).keys()], ['Personal'])
  await service.expect('undoImport', 200, request)
  t.match(await settledImport(service, ada, request.params.import_id), {
    status: 'undone',
    result: { kept: 0 },
  })
  t.equal((await tasksOf(ada)).size, 0)
})

t.test('what is discarded goes before other imports of its owner, and its quota is free again', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  // As many as a user may own. The discarded project has one more.
  const lines = Array.from({ length: 40 }, (_, n) => `Task ${n}`)
  const { id: import_id, version } = await uploadedImport(service, ada, table('title', ...lines))
  const { request, goOn } = await runUntilFile(t, ada)
  await service.expect('runImport', 200, { token, params: { import_id }, body: { version } })
  await service.expect('cancelImport', 200, request)
  goOn()
  t.match(await settledImport(service, ada, import_id), { status: 'finished', result: { created: 40 } })
  t.match(await settledImport(service, ada, request.params.import_id), { status: 'cancelled' })
})

t.test('a reminder that comes due while its project is filled fires when it is shown', async (t) => {
  const ada = await newAccount()
  const { request, project, goOn } = await runUntilFile(t, ada)
  const { db } = service.deps
  await db.run(
    `insert into reminders (id, task_id, user_id, at, fires_at)
     select $3::uuid, id, $2, now(), now() from tasks where project_id = $1`,
    [project.project_id, ada.id, newId()],
  )
  await fireDueReminders(db, new AbortController().signal)
  goOn()
  t.match(await settledImport(service, ada, request.params.import_id), { status: 'finished' })
  await eventually('the reminder fires', async () => {
    const { body } = await service.expect('listNotifications', 200, { token: ada.token })
    return body.items.some(({ reason }) => reason === 'reminder')
  })
})

t.test('a deleted user goes after the projects that an import of theirs fills', async () => {
  const { db } = service.deps
  const [ada, stop] = [await newAccount(), new AbortController().signal]
  const { id: import_id } = await uploadedImport(service, ada)
  const [project] = await db.run(
    `insert into projects (id, name, description, deleted_at, filling_import_id) values (gen_random_uuid(), 'Hidden', '', now(), $1) returning id`,
    [import_id],
  )
  await db.run(
    `update imports set status = 'running', result = null, leased_until = now() + interval '1 hour' where id = $1`,
    [import_id],
  )
  await service.expect('deleteUser', 204, { token: ada.token, params: { user_id: 'me' } })
  await purgeDeleted(db, stop)
  await db.run('update imports set leased_until = null where id = $1', [import_id])
  await eventually('both are gone', async () => {
    await purgeDeleted(db, stop)
    const left = await db.run(
      'select from projects where id = $1 union all select from users where id = $2',
      [project?.id, ada.id],
    )
    return left.length === 0
  })
})

t.test('the imports of a user take turns, also if one waits to be tried again', async (t) => {
  const [ada, bob] = [await newAccount(), await newAccount()]
  const first = await uploadedImport(service, ada)
  await service.deps.db.run(
    `update imports set status = 'reading', preview = null, leased_until = now() + interval '1 hour' where id = $1`,
    [first.id],
  )
  const body = fileForm('title\nSecond\n', 'tasks.csv')
  const { body: second } = await service.expect('createImport', 201, { token: ada.token, body })
  await uploadedImport(service, bob)
  const params = { import_id: second.id }
  const { body: waiting } = await service.expect('getImport', 200, { token: ada.token, params })
  t.match(waiting, { status: 'reading', progress: { done: 0 } })
  await service.deps.db.run('update imports set leased_until = null where id = $1', [first.id])
  t.match(await settledImport(service, ada, second.id), { status: 'ready' })
  t.match(await settledImport(service, ada, first.id), { status: 'ready' })
})

t.test('all tasks go into a project that was chosen', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const project = await createProject(ada, 'House')
  const params = { project_id: project.id }
  const section = await service.expect('createSection', 201, { token, params, body: { name: 'Roof' } })
  const file = table('title,project,section', 'Tiles,Elsewhere,Roof', 'Paint,,', 'Dig,Elsewhere,Cellar')
  const ran = await ranImport(service, ada, file, { project_id: project.id })
  t.match(ran.result, { created: 4, refused: 0 }, 'three tasks, and a section')
  const tasks = await tasksOf(ada, { project_id: project.id })
  t.equal(tasks.get('Tiles')?.section_id, section.body.id, 'a section with the name is used')
  t.ok(tasks.get('Dig')?.section_id)
  t.equal(tasks.size, 3)
  t.equal((await projectsOf(ada)).length, 1)
})

t.test('a record is not imported twice', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const first = await ranImport(service, ada, board('Plant', 'Water'))
  t.match(first.result, { created: 4 })
  const [project] = await projectsOf(ada)
  const tasks = await tasksOf(ada, { project_id: project?.id ?? '' })
  await service.expect('deleteTask', 204, { token, params: { task_id: tasks.get('Plant')?.id ?? '' } })

  const second = await ranImport(service, ada, board('Plant', 'Water', 'Harvest'))
  t.match(second.result, { created: 1, skipped: 3, refused: 0 })
  const present = await tasksOf(ada, { project_id: project?.id ?? '' })
  t.strictSame(new Set(present.keys()), new Set(['Water', 'Harvest']), 'what was deleted is not made again')
  const skipped = await rowsOf(service, ada, second.id, 'skipped')
  t.ok(skipped.every(({ code, resource_id }) => code === 'imported_before' && resource_id !== null))
  t.equal((await projectsOf(ada)).length, 1)
})

t.test('a section that was deleted here, and another place', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  await ranImport(service, ada, board('Plant'))
  const [garden] = await projectsOf(ada)
  const params = { project_id: garden?.id ?? '' }
  const { body: sections } = await service.expect('listProjectSections', 200, { token, params })
  for (const { id: section_id } of sections.items)
    await service.expect('deleteSection', 204, { token, params: { ...params, section_id } })
  t.match((await ranImport(service, ada, board('Plant', 'Water'))).result, { refused: 0 })
  t.ok((await tasksOf(ada, params)).get('Water')?.section_id)

  const other = await createProject(ada, 'Other')
  const ran = await ranImport(service, ada, board('Plant', 'Water', 'Harvest'), { project_id: other.id })
  t.match(ran, { status: 'finished', result: { created: 2, skipped: 2 } }, 'the new task, and a section')
  t.ok((await tasksOf(ada, { project_id: other.id })).get('Harvest')?.section_id)
})

t.test('a file of an archive that is damaged is a line of the report', async (t) => {
  const [ada, bob] = [await newAccount(), await newAccount()]
  const task = await createTask(ada, { title: 'With a file' })
  const content = randomBytes(20_000).toString('hex')
  await service.expect('addTaskAttachment', 201, {
    token: ada.token,
    params: { task_id: task.id },
    body: fileForm(content),
  })
  const archive = await archiveOf(service, ada, await finishedExport(service, ada))
  // The content of the largest entry, in the middle of the archive.
  const at = Buffer.from(archive).indexOf('files/') + 8_000
  archive.fill(0xff, at, at + 200)
  const ran = await ranImport(service, bob, { name: 'export.zip', content: archive })
  t.match(ran, { status: 'finished', result: { created: 1 } })
  t.match(await rowsOf(service, bob, ran.id, 'refused'), [
    { type: 'attachment', field: 'file', code: 'invalid' },
  ])
  t.equal((await tasksOf(bob)).get('With a file')?.attachment_count, 0)
})

t.test('deleting an import deletes nothing that it has created', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  const ran = await ranImport(service, ada, board('Plant'))
  const [project] = await projectsOf(ada)
  const params = { project_id: project?.id ?? '' }
  await service.expect('deleteProject', 204, { token, params })
  await service.expect('deleteImport', 204, { token, params: { import_id: ran.id } })
  await service.expect('getImport', 404, { token, params: { import_id: ran.id } })
  await service.expect('restoreProject', 200, { token, params })
  t.equal((await tasksOf(ada, params)).size, 1)
  t.match((await ranImport(service, ada, board('Plant'))).result, { created: 0 }, 'it is still known')
})

t.test('a field is updated if the file has changed it, and nobody here', async (t) => {
  const ada = await newAccount()
  const { token } = ada
  await ranImport(service, ada, board('Plant', 'Water'))
  const query = { project_id: (await projectsOf(ada))[0]?.id ?? '' }
  const changeHere = async (title: string, body: object) => {
    const params = { task_id: (await tasksOf(ada, query)).get(title)?.id ?? '' }
    await service.expect('updateTask', 200, { token, params, body })
  }
  await changeHere('Water', { description: 'Changed here.', priority: 'high' })
  const file = board({ id: 'Plant', desc: 'New.' }, { id: 'Water', name: 'Water daily', desc: 'New.' })
  const second = await ranImport(service, ada, file, { existing: 'update' })
  t.match(second.result, { created: 0, updated: 2, skipped: 1 })
  const tasks = await tasksOf(ada, query)
  t.match(tasks.get('Plant'), { description: 'New.', version: 2 })
  t.match(tasks.get('Water daily'), { description: 'Changed here.', priority: 'high' })
  const third = await ranImport(service, ada, file, { existing: 'update' })
  t.match(third.result, { updated: 0, skipped: 3 }, 'the file has not changed since')
})
