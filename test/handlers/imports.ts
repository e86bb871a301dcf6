import { createHash } from 'node:crypto'
import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { expireImports } from '../../src/db/interchange/imports.ts'
import { purgeDeleted } from '../../src/db/tasks/purge.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { type Storage, StorageFull } from '../../src/storage/storage.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { openStream } from '../fixture/event-stream.ts'
import { eventually } from '../fixture/eventually.ts'
import {
  type ImportFile,
  keepImports,
  noImportRuns,
  ranImport,
  rowsOf,
  settledImport,
  smallTable,
  uploadedImport,
} from '../fixture/imports.ts'
import { notificationOf } from '../fixture/notifications.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { isGone, openStorageFor } from '../fixture/storage.ts'
import { taskActions, unknownId } from '../fixture/tasks.ts'

type Import = components['schemas']['Import']
type ImportPatch = components['schemas']['ImportPatch']

const { db } = await openTestDatabase(t)
const storage = await openStorageFor(`/tmp/taskwright-imports-${process.pid}`)
/** Set while the storage answers in another way. */
const presentOpen: Storage['open'] = (...args) => storage.open(...args)
const presentPut: Storage['put'] = (...args) => storage.put(...args)
let open = presentOpen
let put = presentPut
const maxBytes = 10_000
const service = await startService(t, {
  db,
  storage: { ...storage, open: (...args) => open(...args), put: (...args) => put(...args) },
  config: { importMaxBytes: maxBytes },
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 20 },
})
const { createTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const ada = await service.register('ada')
const bob = await service.register('bob')

const requestOf = ({ id: import_id }: Pick<Import, 'id'>, { token }: Pick<Account, 'token'> = ada) => ({
  token,
  params: { import_id },
})

const read = async (one: Pick<Import, 'id'>): Promise<Import> =>
  (await service.expect('getImport', 200, requestOf(one))).body

const upload = (file: ImportFile = smallTable): Promise<Import> => uploadedImport(service, ada, file)

const table = (content: string, name = 'tasks.csv'): ImportFile => ({ name, content })

const patch = async (one: Pick<Import, 'id'>, body: ImportPatch): Promise<Import> => {
  await service.expect('updateImport', 200, { ...requestOf(one), body })
  return settledImport(service, ada, one.id)
}

const run = async (one: Pick<Import, 'id' | 'version'>): Promise<Import> => {
  await service.expect('runImport', 200, { ...requestOf(one), body: { version: one.version } })
  return settledImport(service, ada, one.id)
}

/** An import of one task with another title than all others. */
const otherTable = (): ImportFile => table(`title\nTask ${Math.random()}\n`)

/** The task that an import has created. */
const taskOf = async (one: Pick<Import, 'id'>) => {
  const [row] = await rowsOf(service, ada, one.id, 'created')
  const params = { task_id: row?.resource_id ?? '' }
  return (await service.expect('getTask', 200, { token: ada.token, params })).body
}

/** Holds all imports as soon as their files are opened, until `end` is called. */
const holdFiles = async (): Promise<{
  readonly isHeld: Promise<void>
  readonly end: () => void
}> => {
  await noImportRuns(service)
  const { promise: isHeld, resolve: begin } = Promise.withResolvers<void>()
  const { promise: mayEnd, resolve } = Promise.withResolvers<void>()
  open = async (...args) => {
    begin()
    await mayEnd
    return storage.open(...args)
  }
  const end = (): void => {
    open = presentOpen
    resolve()
  }
  return { isHeld, end }
}

const keyOf = async ({ id }: Pick<Import, 'id'>): Promise<string> => {
  const [row] = await db.run('select storage_key from imports where id = $1', [id])
  return String(row?.storage_key)
}

const setAuthenticated = (account: Account, time: string) =>
  db.run(`update sessions set authenticated_at = ${time} where user_id = $1`, [account.id])

/** Sends a request that is refused before its file is received. */
const whileNothingIsStored = async <T>(request: () => Promise<T>): Promise<T> => {
  put = () => Promise.reject(new StorageFull())
  const reply = await request()
  put = presentPut
  return reply
}

t.test('createImport', async (t) => {
  t.test('201: the file is stored, then read', async (t) => {
    const { end } = await holdFiles()
    const { token } = ada
    const form = fileForm('title\nWater the plants\n', 'Aufgaben.csv')
    form.set('sha256', '')
    const { body, headers } = await service.expect('createImport', 201, { token, body: form })
    t.match(body, {
      status: 'reading',
      failure: null,
      file_name: 'Aufgaben.csv',
      size: 23,
      format: null,
      csv: null,
      project_id: null,
      users: [],
      progress: { done: 0, total: null },
      poll_after_seconds: Number,
      preview: null,
      result: null,
      version: 1,
      ended_at: null,
    })
    t.equal(headers.get('location'), `/imports/${body.id}`)
    const inAWeek = Date.parse(body.file_expires_at ?? '') - Date.parse(body.created_at)
    t.ok(Math.abs(inAWeek - 7 * 86_400_000) < 10_000)
    end()
    const ready = await settledImport(service, ada, body.id)
    t.match(ready, { status: 'ready', format: 'csv', preview: { tasks: 1 }, poll_after_seconds: null })
    t.equal(ready.progress.done, ready.progress.total)
  })

  t.test('201: the same key and file again', async (t) => {
    const request = { token: ada.token, headers: { 'idempotency-key': 'import-1' } }
    const form = () => fileForm('title\nOnce\n', 'tasks.csv')
    const first = await service.expect('createImport', 201, { ...request, body: form() })
    const again = await service.expect('createImport', 201, { ...request, body: form() })
    t.equal(again.body.id, first.body.id)
    t.equal(again.headers.get('idempotency-replayed'), 'true')
    await service.expect('createImport', 422, {
      ...request,
      body: fileForm('title\nAnother\n', 'tasks.csv'),
    })
  })

  t.test('422: another digest', async () => {
    const form = fileForm('title\n')
    form.set('sha256', createHash('sha256').update('another').digest('hex'))
    await service.expect('createImport', 422, { token: ada.token, body: form })
  })

  t.test('403: long after signing in; not with an API token', async () => {
    await setAuthenticated(bob, `now() - interval '1 hour'`)
    const body = () => fileForm('title\n')
    await whileNothingIsStored(() => service.expect('createImport', 403, { token: bob.token, body: body() }))
    const { token } = await createApiToken(bob, { scopes: ['imports:write'] })
    await service.expect('createImport', 201, { token, body: body() })
    await setAuthenticated(bob, 'now()')
  })

  t.test('413: a file that is larger than files may be', async (t) => {
    const { body } = await service.expect('createImport', 413, {
      token: ada.token,
      body: fileForm(Buffer.alloc(maxBytes + 1)),
    })
    t.match(body, { code: 'content_too_large' })
  })

  t.test('413: a user keeps 20', async (t) => {
    const lee = await service.register('lee')
    await keepImports(service, lee, 20)
    const { body } = await whileNothingIsStored(() =>
      service.expect('createImport', 413, { token: lee.token, body: fileForm('title\n') }),
    )
    t.match(body, { code: 'quota_exceeded', resource: 'imports', quota: 20, used: 20 })
  })

  t.test('413 and 403 for what has changed while the file was received', async () => {
    const changed = await service.register('changed')
    const { token } = changed
    const changing = (change: () => Promise<unknown>): void => {
      put = async (...args) => {
        await change()
        return storage.put(...args)
      }
    }
    changing(() => setAuthenticated(changed, `now() - interval '1 hour'`))
    await service.expect('createImport', 403, { token, body: fileForm('title\n') })
    await setAuthenticated(changed, 'now()')
    changing(() => keepImports(service, changed, 20))
    await service.expect('createImport', 413, { token, body: fileForm('title\n') })
    put = presentPut
  })

  t.test('201: a repeat, although it is long after signing in and there are 20', async (t) => {
    const repeating = await service.register('repeating')
    await keepImports(service, repeating, 19)
    const request = { token: repeating.token, headers: { 'idempotency-key': 'import-20' } }
    const form = () => fileForm('title\nOnce\n', 'tasks.csv')
    const first = await service.expect('createImport', 201, { ...request, body: form() })
    await setAuthenticated(repeating, `now() - interval '1 hour'`)
    const again = await service.expect('createImport', 201, { ...request, body: form() })
    t.equal(again.body.id, first.body.id)
    const another = { token: repeating.token, headers: { 'idempotency-key': 'import-21' } }
    await whileNothingIsStored(() => service.expect('createImport', 403, { ...another, body: form() }))
    await setAuthenticated(repeating, 'now()')
    await whileNothingIsStored(() => service.expect('createImport', 413, { ...another, body: form() }))
  })

  t.test('507: there is no space', async () => {
    put = () => Promise.reject(new StorageFull())
    await service.expect('createImport', 507, { token: ada.token, body: fileForm('title\n') })
    put = presentPut
  })
})

t.test('getImport, listImports, listImportRows', async (t) => {
  t.test('200: only the own ones', async (t) => {
    const own = await upload()
    const of = await uploadedImport(service, bob)
    const { body } = await service.expect('listImports', 200, { token: ada.token })
    const ids = body.items.map(({ id }) => id)
    t.ok(ids.includes(own.id))
    t.notOk(ids.includes(of.id))
    t.equal(ids[0], own.id, 'newest first')
  })

  t.test('404: those of others, also for an administrator', async () => {
    const one = await upload()
    for (const account of [bob, admin]) {
      const request = requestOf(one, account)
      await service.expect('getImport', 404, request)
      await service.expect('listImportRows', 404, request)
      await service.expect('updateImport', 404, { ...request, body: {} })
      await service.expect('runImport', 404, { ...request, body: { version: one.version } })
      await service.expect('cancelImport', 404, request)
      await service.expect('undoImport', 404, request)
      await service.expect('deleteImport', 404, request)
    }
  })

  t.test('200: rows by their outcomes, in the order of the file', async (t) => {
    const content = 'title,recurrence\nOne,\n,x\nThree,someday\nFour,\n'
    const ready = await upload(table(content))
    const outcomes = async (outcome?: components['schemas']['ImportOutcome'][]) => {
      const query = outcome === undefined ? {} : { outcome }
      const { body } = await service.expect('listImportRows', 200, { ...requestOf(ready), query })
      return body.items.map(({ outcome: one, row }) => [one, row])
    }
    t.strictSame(await outcomes(), [
      ['refused', 3],
      ['altered', 4],
    ])
    await run(ready)
    t.strictSame(await outcomes(['refused']), [['refused', 3]])
    t.strictSame(await outcomes(['altered', 'refused']), [
      ['refused', 3],
      ['altered', 4],
    ])
    t.equal((await outcomes(['created'])).length, 3)
    t.strictSame(await outcomes(['note']), [])
    const { body } = await service.expect('listImportRows', 200, {
      ...requestOf(ready),
      query: { limit: 2, include_total: true },
    })
    t.equal(body.total, 5)
    const next = { ...requestOf(ready), query: { limit: 2, cursor: body.next_cursor ?? '' } }
    const { body: second } = await service.expect('listImportRows', 200, next)
    const numbers = [...body.items, ...second.items].map(({ number }) => number)
    t.strictSame(
      numbers,
      numbers.toSorted((a, b) => a - b),
    )
    t.equal(new Set(numbers).size, 4)
  })
})

t.test('updateImport', async (t) => {
  t.test('200: a file that is not recognized is read as the format that is set', async (t) => {
    const unknown = await upload({ name: 'notes.txt', content: '\u0000\u0001\u0002' })
    t.match(unknown, { status: 'failed', failure: 'unknown_format', format: null, ended_at: /Z$/ })
    const damaged = await patch(unknown, { format: 'trello' })
    t.match(damaged, { status: 'failed', failure: 'damaged', format: 'trello' })

    const board = { id: 'a board', name: 'Garden', cards: [{ id: 'a card', name: 'Water the plants' }] }
    const cards = await upload({ name: 'board.json', content: JSON.stringify(board) })
    t.match(cards, { status: 'failed', failure: 'unknown_format' })
    const ready = await patch(cards, { format: 'trello' })
    t.match(ready, {
      status: 'ready',
      failure: null,
      format: 'trello',
      ended_at: null,
      preview: { tasks: 1 },
    })
    t.ok(ready.version > cards.version)
    t.match(await patch(ready, { format: null }), { status: 'failed', failure: 'unknown_format' })
  })

  t.test('200: a file that could not be read is read again with the same options', async (t) => {
    open = () => Promise.reject(new StorageFull())
    const failed = await upload()
    t.match(failed, { status: 'failed', failure: 'storage_full', csv: null })
    open = presentOpen
    t.match(await patch(failed, {}), { status: 'ready', failure: null, preview: { tasks: 1 } })

    const full = await startService(t, {
      config: { diskReserveBytes: Number.MAX_SAFE_INTEGER },
      jobTimes: { ...jobTimes, cleanupAtStart: false, events: 20 },
      storage,
    })
    const bob = await full.register('admin')
    t.match(
      await uploadedImport(full, bob),
      { status: 'failed', failure: 'storage_full' },
      'reading it copies it to the disk',
    )
  })

  t.test('200: another encoding, also with the rest of the table as it is', async (t) => {
    const ready = await upload(table('Título;estado\nComprar pão;feito\n'))
    const { csv } = ready
    t.match(csv, { encoding: 'utf-8', columns: ['title', 'status'] })
    if (csv === null) throw new Error('There is no table')
    const other = await patch(ready, { csv: { ...csv, encoding: 'windows-1252' } })
    t.match(other.csv, {
      encoding: 'windows-1252',
      names: ['TÃ\u00adtulo', 'estado'],
      columns: ['title', 'status'],
    })
    t.match((await patch(ready, { csv: { encoding: 'utf-8' } })).csv, { names: ['Título', 'estado'] })
  })

  t.test('200: a table without a column for titles shows its columns', async (t) => {
    const ready = await upload(table('due,status\n2090-05-01,open\n'))
    t.match(ready, { status: 'ready', csv: { names: ['due', 'status'], columns: ['due', 'title'] } })
  })

  t.test('200: columns, which null guesses', async (t) => {
    const content = 'What;Due\nOne;01/02/2090\n'
    const first = await upload(table(content))
    t.match(first.csv, {
      delimiter: ';',
      has_header: true,
      names: ['What', 'Due'],
      rows: [['One', '01/02/2090']],
    })
    const changed = await patch(first, {
      csv: { columns: ['title', 'due'], date_order: 'dmy' },
    })
    t.match(changed, {
      status: 'ready',
      csv: { columns: ['title', 'due'], date_order: 'dmy', delimiter: ';' },
    })
    t.equal((await read(changed)).version, changed.version)
    const { body: same } = await service.expect('updateImport', 200, {
      ...requestOf(changed),
      body: { csv: changed.csv },
    })
    t.equal(same.version, changed.version, 'nothing has changed')
    t.match((await taskOf(await run(changed))).due_on, '2090-02-01')

    const second = await upload(table(content))
    await patch(second, { csv: { columns: ['skip', 'title'] } })
    t.strictSame((await patch(second, { csv: null })).csv, first.csv)
  })

  t.test('200: an encoding, with which the rest is guessed again', async (t) => {
    const content = Buffer.from('Tâche;Echéance\nCrème brûlée;2090-02-01\n', 'latin1')
    const first = await upload({ name: 'tasks.csv', content })
    t.match(first.csv, { encoding: 'windows-1252', names: ['Tâche', 'Echéance'], columns: ['title', 'skip'] })
    const wrong = await patch(first, { csv: { encoding: 'windows-1250' } })
    t.match(wrong.csv, { encoding: 'windows-1250', rows: [['Crčme brűlée', '2090-02-01']] })
    const columns = ['title', 'due'] as const
    const named = await patch(wrong, { csv: { encoding: 'windows-1252', columns: columns.slice() } })
    t.match(named.csv, { names: ['Tâche', 'Echéance'], rows: [['Crème brûlée', '2090-02-01']], columns })
    t.match(await taskOf(await run(named)), { title: 'Crème brûlée', due_on: '2090-02-01' })

    const unknown = await upload({ name: 'tasks.csv', content: Buffer.from('Übung;Due\nA;\n', 'utf16le') })
    t.match(unknown, { status: 'failed', failure: 'unknown_format' })
    const known = await patch(unknown, { format: 'csv', csv: { encoding: 'utf-16le' } })
    t.match(known, { status: 'ready', csv: { names: ['Übung', 'Due'], columns: ['title', 'due'] } })
  })

  t.test('200: a table that looks like something else', async (t) => {
    const list = await upload({ name: 'list.txt', content: '[ ] Buy seeds\n[ ] Call Ada\n' })
    t.match(list, { status: 'failed', format: null })
    t.match(await patch(list, { format: 'csv' }), { status: 'ready', format: 'csv', preview: { tasks: 2 } })
  })

  t.test('200: a project and users, without reading again', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'editor')
    const ready = await upload(table('title,assignee\nOne,Robert\nTwo,Somebody\n'))
    t.match(ready.preview?.users, [{ display_name: 'Robert' }, { display_name: 'Somebody' }])
    const source_id = ready.preview?.users[0]?.source_id ?? ''
    const body = { project_id: project.id, users: [{ source_id, user_id: bob.id }] }
    const { body: changed } = await service.expect('updateImport', 200, { ...requestOf(ready), body })
    t.match(changed, { ...body, status: 'ready', preview: ready.preview, version: ready.version + 1 })
    t.match(await run(changed), { status: 'finished', result: { created: 2 } })
    const query = { project_id: [project.id], sort: 'title' }
    const { body: tasks } = await service.expect('listTasks', 200, { token: ada.token, query })
    t.match(tasks.items, [
      { title: 'One', assignee_id: bob.id, owner_id: ada.id },
      { title: 'Two', assignee_id: null },
    ])

    const [imported] = tasks.items
    const params = { task_id: imported?.id ?? '' }
    const { body: followers } = await service.expect('listTaskFollowers', 200, { token: ada.token, params })
    t.strictSame(followers.items, [])
    const later = await createTask(ada, { project_id: project.id, assignee_id: bob.id })
    await notificationOf(service, bob, later.id)
    const { body: inbox } = await service.expect('listNotifications', 200, { token: bob.token })
    t.notOk(
      inbox.items.some(({ task_id }) => task_id === imported?.id),
      'nobody is notified',
    )
  })

  t.test('200: a thousand users, with the whole object', async (t) => {
    const ready = await upload()
    const users = Array.from({ length: 1_000 }, (_, n) => ({
      source_id: `${n}`.padStart(500, '0'),
      user_id: bob.id,
    }))
    const request = requestOf(ready)
    const { body } = await service.expect('updateImport', 200, { ...request, body: { ...ready, users } })
    t.strictSame(body.users, users)
    await service.expect('updateImport', 400, {
      ...request,
      body: { users: [...users, ...users.slice(0, 1)] },
    })
  })

  t.test(
    '400: a table without the format, a part of one, columns without the title, a user of the file twice',
    async () => {
      const calendar = await upload({ name: 'tasks.ics', content: 'BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n' })
      const request = requestOf(calendar)
      const csv = { delimiter: ',' }
      await service.expect('updateImport', 400, { ...request, body: { csv: { ...calendar.csv, ...csv } } })
      await service.expect('updateImport', 400, { ...request, body: { format: 'csv', csv } })
      const tableRequest = requestOf(await upload())
      for (const columns of [['skip'], ['title', 'title']])
        await service.expect('updateImport', 400, { ...tableRequest, body: { csv: { columns } } })
      const users = [ada, bob].map(({ id: user_id }) => ({ source_id: 'one', user_id }))
      await service.expect('updateImport', 400, { ...request, body: { users } })
    },
  )

  t.test('403, 409, 422: a project that the user may not edit, is archived, or is not seen', async (t) => {
    const ready = await upload()
    const into = ({ id: project_id }: { readonly id: string }) => ({
      ...requestOf(ready),
      body: { project_id },
    })
    const bobsProject = await createProject(bob)
    await service.expect('updateImport', 422, into(bobsProject))
    await service.expect('updateImport', 422, into({ id: unknownId }))
    await setMember(bob, bobsProject, ada, 'viewer')
    await service.expect('updateImport', 403, into(bobsProject))
    const archived = await createProject(ada)
    await service.expect('archiveProject', 200, { token: ada.token, params: { project_id: archived.id } })
    const { body } = await service.expect('updateImport', 409, into(archived))
    t.equal(body.code, 'project_archived')
    const users = [{ source_id: 'one', user_id: unknownId }]
    await service.expect('updateImport', 422, { ...requestOf(ready), body: { users } })
  })

  t.test('412: another version', async () => {
    const ready = await upload()
    await service.expect('updateImport', 412, { ...requestOf(ready), body: { version: ready.version + 1 } })
    await service.expect('updateImport', 412, {
      ...requestOf(ready),
      headers: { 'if-match': '"99"' },
      body: { project_id: null },
    })
  })
})

t.test('runImport', async (t) => {
  t.test('200: with an API token; tasks without a project are personal', async (t) => {
    const { token } = await createApiToken(ada, { scopes: ['imports:write'] })
    const ran = await ranImport(service, { token }, otherTable())
    t.match(ran, { status: 'finished', result: { created: 1 }, ended_at: /Z$/, poll_after_seconds: null })
    t.match(await taskOf(ran), { project_id: null, owner_id: ada.id })
  })

  t.test('200: a project of the file becomes a new one', async (t) => {
    const ran = await ranImport(service, ada, table('title,project\nOne,Garden\nTwo,Garden\nThree,\n'))
    t.match(ran, { status: 'finished', result: { created: 4 } })
    const { body } = await service.expect('listProjects', 200, { token: ada.token })
    const garden = body.items.find(({ name }) => name === 'Garden')
    t.match(garden, { role: 'manager', open_task_count: 2 })
  })

  t.test('200: the quota of tasks', async (t) => {
    const kim = await service.register('kim')
    const params = { user_id: kim.id }
    await service.expect('updateUser', 200, { token: admin.token, params, body: { task_quota: 1 } })
    const failed = await ranImport(service, kim, table('title,project\nOne,Garden\nTwo,Garden\n'))
    t.match(failed, { status: 'failed', failure: 'quota_exceeded' })
    const { body: tasks } = await service.expect('listTasks', 200, { token: kim.token })
    const { body: projects } = await service.expect('listProjects', 200, { token: kim.token })
    t.strictSame([...tasks.items, ...projects.items], [], 'nothing remains')
    t.match(await ranImport(service, kim, otherTable()), { status: 'finished' })
  })

  t.test('403: long after signing in', async () => {
    const ready = await upload()
    await setAuthenticated(ada, `now() - interval '1 hour'`)
    await service.expect('runImport', 403, { ...requestOf(ready), body: { version: ready.version } })
    await setAuthenticated(ada, 'now()')
  })

  t.test('403, 422: a project that the user has lost', async () => {
    const project = await createProject(bob)
    await setMember(bob, project, ada, 'editor')
    const ready = await upload()
    const { version } = await patch(ready, { project_id: project.id })
    const request = { ...requestOf(ready), body: { version } }
    await setMember(bob, project, ada, 'commenter')
    await service.expect('runImport', 403, request)
    const params = { project_id: project.id }
    await service.expect('deleteProject', 204, { token: bob.token, params })
    await service.expect('runImport', 422, request)
    await service.expect('deleteTrashedProject', 204, { token: bob.token, params })
    await purgeDeleted(db, new AbortController().signal)
    await service.expect('runImport', 422, request)
  })

  t.test('200: a project that is lost meanwhile', async (t) => {
    const project = await createProject(bob)
    await setMember(bob, project, ada, 'editor')
    const ready = await upload()
    const { version } = await patch(ready, { project_id: project.id })
    const { isHeld, end } = await holdFiles()
    await service.expect('runImport', 200, { ...requestOf(ready), body: { version } })
    await isHeld
    await setMember(bob, project, ada, 'viewer')
    end()
    t.match(await settledImport(service, ada, ready.id), { status: 'failed', failure: 'access_lost' })
  })

  t.test('409: while it is read, and once it has run', async (t) => {
    const { isHeld, end } = await holdFiles()
    const { body: reading } = await service.expect('createImport', 201, {
      token: ada.token,
      body: fileForm('title\nOne\n', 'tasks.csv'),
    })
    await isHeld
    const request = requestOf(reading)
    const early = { ...request, body: { version: reading.version } }
    t.match((await service.expect('runImport', 409, early)).body, {
      code: 'import_state',
      detail: /^The import is reading/,
    })
    await service.expect('updateImport', 409, { ...request, body: { project_id: null } })
    await service.expect('undoImport', 409, request)
    end()
    const ready = await settledImport(service, ada, reading.id)
    t.match((await service.expect('undoImport', 409, request)).body, { detail: /^The import is ready/ })
    const { version } = await run(ready)
    await service.expect('runImport', 409, { ...request, body: { version } })
    await service.expect('updateImport', 409, { ...request, body: { project_id: null } })
  })

  t.test('409: its file was deleted', async (t) => {
    const ready = await upload()
    const key = await keyOf(ready)
    await db.run(`update imports set file_expires_at = now() - interval '1 second' where id = $1`, [ready.id])
    await expireImports(db, 30, new AbortController().signal)
    const { version, file_expires_at } = await read(ready)
    t.equal(file_expires_at, null)
    await service.expect('runImport', 409, { ...requestOf(ready), body: { version } })
    await service.expect('updateImport', 409, { ...requestOf(ready), body: { format: 'trello' } })
    t.equal((await db.run('select from file_deletions where storage_key = $1', [key])).length, 1)
  })

  t.test('412: another version than the one that was previewed', async (t) => {
    const ready = await upload()
    await patch(ready, { csv: { has_header: false } })
    const request = { ...requestOf(ready), body: { version: ready.version } }
    const { body } = await service.expect('runImport', 412, request)
    t.equal(body.code, 'precondition_failed')
  })

  t.test('its end is on the streams of its owner, its tasks are not', async (t) => {
    const streams = [
      await openStream(t, service, { token: ada.token }),
      await openStream(t, service, { token: bob.token }),
    ]
    const ran = await ranImport(service, ada, otherTable())
    const [own, bobsStream] = streams
    const event = await own?.next()
    t.match(event?.data, { type: 'import.finished', resource_id: ran.id, after: { status: 'finished' } })
    await createTask(bob)
    t.match((await bobsStream?.next())?.data, { type: 'task.created' })
    t.strictSame(own?.rest(), [])
    const query = { type: ['task.imported', 'import.finished'] }
    const { body } = await service.expect('listEvents', 200, { token: ada.token, query })
    const task = await taskOf(ran)
    t.match(body.items[0], { type: 'task.imported', task_id: task.id, resource_id: ran.id })
  })
})

t.test('cancelImport', async (t) => {
  t.test('200: one that is read, is ready, or runs; one that has ended stays', async (t) => {
    const { isHeld, end } = await holdFiles()
    const { body: reading } = await service.expect('createImport', 201, {
      token: ada.token,
      body: fileForm('title\nOne\n', 'tasks.csv'),
    })
    await isHeld
    const cancelled = { status: 'cancelled', poll_after_seconds: null, ended_at: /Z$/ }
    t.match((await service.expect('cancelImport', 200, requestOf(reading))).body, cancelled)
    end()

    const ready = await upload()
    await service.expect('cancelImport', 412, { ...requestOf(ready), headers: { 'if-match': '"99"' } })
    const { body } = await service.expect('cancelImport', 200, requestOf(ready))
    t.match(body, cancelled)
    const { body: again } = await service.expect('cancelImport', 200, requestOf(ready))
    t.equal(again.version, body.version)
    const request = { ...requestOf(ready), body: { version: body.version } }
    await service.expect('runImport', 409, request)
    await service.expect('updateImport', 409, { ...requestOf(ready), body: {} })
    await service.expect('undoImport', 409, requestOf(ready))

    const next = await upload(otherTable())
    const held = await holdFiles()
    await service.expect('runImport', 200, { ...requestOf(next), body: { version: next.version } })
    await held.isHeld
    t.match((await service.expect('cancelImport', 200, requestOf(next))).body, {
      status: 'discarding',
      ended_at: null,
    })
    held.end()
    await noImportRuns(service)
    t.match(await read(next), { ...cancelled, result: { created: 0 } })
    t.strictSame(await rowsOf(service, ada, next.id, 'created'), [])
    t.match(await read(reading), { status: 'cancelled', preview: null })
  })
})

t.test('undoImport', async (t) => {
  t.test('200: what it has created is in the trash; again, nothing happens', async (t) => {
    const ran = await ranImport(service, ada, otherTable())
    const task = await taskOf(ran)
    await service.expect('undoImport', 412, { ...requestOf(ran), headers: { 'if-match': '"99"' } })
    await service.expect('undoImport', 200, requestOf(ran))
    const undone = await settledImport(service, ada, ran.id)
    t.match(undone, { status: 'undone', result: { created: 1, undone: 1, kept: 0 } })
    const params = { task_id: task.id }
    await service.expect('getTask', 404, { token: ada.token, params })
    await service.expect('restoreTask', 200, { token: ada.token, params })
    const { body } = await service.expect('undoImport', 200, requestOf(ran))
    t.equal(body.version, undone.version)
  })
})

t.test('deleteImport', async (t) => {
  t.test('204: with its file; its tasks stay, and are skipped by the next import of the file', async (t) => {
    const file = otherTable()
    const ran = await ranImport(service, ada, file)
    const task = await taskOf(ran)
    const key = await keyOf(ran)
    await service.expect('deleteImport', 412, { ...requestOf(ran), headers: { 'if-match': '"1"' } })
    await service.expect('deleteImport', 204, requestOf(ran))
    await service.expect('getImport', 404, requestOf(ran))
    await service.expect('listImportRows', 404, requestOf(ran))
    await eventually('the file is gone', () => isGone(storage, key))
    const again = await ranImport(service, ada, file)
    t.match(again.result, { created: 0, skipped: 1 })
    t.match(await rowsOf(service, ada, again.id, 'skipped'), [
      { resource_id: task.id, code: 'imported_before' },
    ])
  })

  t.test('204: while it runs', async () => {
    const ready = await upload(otherTable())
    const { isHeld, end } = await holdFiles()
    await service.expect('runImport', 200, { ...requestOf(ready), body: { version: ready.version } })
    await isHeld
    await service.expect('deleteImport', 204, requestOf(ready))
    end()
    await noImportRuns(service)
    await service.expect('getImport', 404, requestOf(ready))
  })

  t.test('204: while it is undone', async (t) => {
    const file = otherTable()
    const ran = await ranImport(service, ada, file)
    const task = await taskOf(ran)
    const earlier = await upload()
    await db.run(
      `update imports set status = 'reading', leased_until = now() + interval '1 hour' where id = $1`,
      [earlier.id],
    )
    t.match((await service.expect('undoImport', 200, requestOf(ran))).body, { status: 'undoing' })
    await service.expect('deleteImport', 204, requestOf(ran))
    await db.run('update imports set leased_until = null where id = $1', [earlier.id])
    await noImportRuns(service)
    await service.expect('getTask', 404, { token: ada.token, params: { task_id: task.id } })
    t.match(
      (await ranImport(service, ada, file)).result,
      { created: 1, skipped: 0 },
      'it can be imported again',
    )
  })

  t.test('204: with its user, and after its time', async (t) => {
    const zoe = await service.register('zoe')
    const zoesImport = await uploadedImport(service, zoe)
    const key = await keyOf(zoesImport)
    await service.expect('deleteUser', 204, { token: zoe.token, params: { user_id: 'me' } })
    await eventually('the file is gone', () => isGone(storage, key))
    t.equal((await db.run('select from imports where id = $1', [zoesImport.id])).length, 0)

    const old = await upload()
    await db.run(`update imports set created_at = now() - interval '31 days' where id = $1`, [old.id])
    await expireImports(db, 30, new AbortController().signal)
    await service.expect('getImport', 404, requestOf(old))
  })
})
