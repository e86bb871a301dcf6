import { createHash } from 'node:crypto'
import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { currentWork } from '../../src/concurrency/work.ts'
import { expireExports } from '../../src/db/interchange/exports.ts'
import { claimDigest } from '../../src/db/activity/notification-settings.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { type Storage, StorageFull } from '../../src/storage/storage.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import {
  archiveOf,
  endedExport,
  entriesOf,
  finishedExport,
  newExport,
  noExportRuns,
  type Records,
  recordsOf,
} from '../fixture/exports.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { isGone, openStorageFor } from '../fixture/storage.ts'
import { taskActions } from '../fixture/tasks.ts'

type Export = components['schemas']['Export']

const { db } = await openTestDatabase(t)
const storage = await openStorageFor(`/tmp/taskwright-exports-${process.pid}`)
/** Set while the storage answers in another way. */
const presentPut: Storage['put'] = (...args) => storage.put(...args)
const presentCheck: Storage['check'] = () => storage.check()
const presentOpen: Storage['open'] = (...args) => storage.open(...args)
let put = presentPut
let open = presentOpen
let check = presentCheck
const lines: string[] = []
const service = await startService(t, {
  db,
  config: { logLevel: 'trace' },
  logStream: { write: (line) => void lines.push(line) },
  storage: {
    ...storage,
    put: (...args) => put(...args),
    open: (...args) => open(...args),
    check: () => check(),
  },
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 50 },
})
const { createTask, addComment, attachFile, createTag } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)
const admin = await service.register('admin')
const { createApiToken, setRole } = accountActions(service, admin)
const ada = await service.register('ada')
const bob = await service.register('bob')

const read = async ({ id: export_id }: Export, { token }: Account = ada): Promise<Export> =>
  (await service.expect('getExport', 200, { token, params: { export_id } })).body

const recordsIn = async (present: Export, account: Account = ada): Promise<Records> =>
  recordsOf(await entriesOf(await archiveOf(service, account, present)))

const idsOf = (records: readonly { readonly id?: unknown }[] | undefined) =>
  (records ?? []).map(({ id }) => id)

/** Removes the file of an export from the storage. */
const loseFile = async ({ id }: Export): Promise<void> => {
  const [row] = await db.run('select storage_key from exports where id = $1', [id])
  await storage.remove(String(row?.storage_key))
}

/** The content of a download, which the client of the tests reads as bytes. */
const bytesOf = (body: unknown): Buffer => Buffer.from(body as Uint8Array)

t.test('createExport', async (t) => {
  t.test('201: everything that the user sees, and nothing else', async (t) => {
    const project = await createProject(ada, 'Shared')
    await setMember(ada, project, bob, 'editor')
    const hidden = await createTask(bob, { title: 'Of Bob alone' })
    const tag = await createTag(ada, 'urgent')
    const parent = await createTask(ada, {
      title: '=SUM(1)',
      due_on: '2090-01-06',
      tag_ids: [tag.id],
      metadata: { origin: 'paper' },
      recurrence: { rule: 'FREQ=WEEKLY' },
    })
    const child = await createTask(ada, { title: 'Below', parent_id: parent.id })
    const shared = await createTask(bob, { title: 'Shared', project_id: project.id, assignee_id: ada.id })
    const assigned = await createTask(bob, { title: 'Assigned', assignee_id: ada.id, parent_id: null })
    await addComment(bob, shared.id, 'From Bob')
    await attachFile(ada, parent.id)
    const relation = { task_id: shared.id, kind: 'blocks', other_task_id: parent.id }
    await service.expect('addTaskRelation', 204, { token: ada.token, params: relation })
    const remind = { token: ada.token, params: { task_id: parent.id }, body: { relative_to: 'due' } }
    await service.expect('createReminder', 201, remind)
    await service.expect('createReminder', 201, {
      token: bob.token,
      params: { task_id: shared.id },
      body: { at: '2090-01-01T00:00:00Z' },
    })

    const { body: first, headers } = await service.expect('createExport', 201, { token: ada.token, body: {} })
    t.equal(headers.get('retry-after'), String(first.poll_after_seconds))
    t.match(first, {
      requested_by: ada.id,
      user_id: ada.id,
      project_id: null,
      progress: { done: 0, total: null },
      size: null,
      version: 1,
    })
    t.match(first.status, /waiting|running/)
    const finished = await finishedExport(service, ada)
    t.match(finished, {
      status: 'finished',
      poll_after_seconds: null,
      failure: null,
      sha256: /^[0-9a-f]{64}$/,
    })
    t.equal(finished.progress.done, finished.progress.total)
    const inThreeDays = Date.parse(finished.expires_at ?? '') - Date.parse(finished.ended_at ?? '')
    t.ok(Math.abs(inThreeDays - 3 * 86_400_000) < 10_000)

    const entries = await entriesOf(await archiveOf(service, ada, finished))
    const records = recordsOf(entries)
    t.strictSame(new Set(idsOf(records.tasks)), new Set([parent.id, child.id, shared.id, assigned.id]))
    const order = idsOf(records.tasks)
    t.ok(order.indexOf(parent.id) < order.indexOf(child.id), 'parents come first')
    t.match(
      records.tasks?.find(({ id }) => id === parent.id),
      {
        title: '=SUM(1)',
        due_on: '2090-01-06',
        tag_ids: [tag.id],
        metadata: { origin: 'paper' },
        recurrence: { rule: 'FREQ=WEEKLY' },
        recurrence_anchor: { of: 'due', date: '2090-01-06' },
        reminders: [{ relative_to: 'due', offset_minutes: 0, time_of_day: '09:00' }],
      },
    )
    t.strictSame(
      records.tasks?.find(({ id }) => id === shared.id)?.reminders,
      [],
      'reminders of others are theirs',
    )
    t.match(records.projects, [{ id: project.id, name: 'Shared' }])
    t.match(records.comments, [{ task_id: shared.id, author_id: bob.id, body: 'From Bob' }])
    t.match(records.relations, [{ ...relation }])
    t.same(idsOf(records.tags), [tag.id])
    t.strictSame(records.users?.map(({ username, ...user }) => [username, Object.keys(user)]).toSorted(), [
      ['ada', ['type', 'id', 'display_name']],
      ['bob', ['type', 'id', 'display_name']],
    ])
    const [attachment] = records.attachments ?? []
    const file = entries.get(String(attachment?.entry))
    t.equal(
      createHash('sha256')
        .update(file ?? '')
        .digest('hex'),
      attachment?.sha256,
    )
    const everything = [...entries.values()].map(String).join()
    for (const secret of [ada.email, bob.email, hidden.id, 'Of Bob alone', 'storage_key'])
      t.notMatch(everything, secret, secret)

    const manifest = JSON.parse(String(entries.get('manifest.json'))) as {
      readonly counts: object
      readonly parts: readonly { readonly name: string; readonly sha256: string }[]
    }
    t.match(manifest.counts, { tasks: 4, comments: 1, files: 1 })
    for (const { name, sha256 } of manifest.parts)
      t.equal(
        createHash('sha256')
          .update(entries.get(name) ?? '')
          .digest('hex'),
        sha256,
        name,
      )
    t.match(String(entries.get('tasks.ics')), /BEGIN:VTODO/)
    t.match(String(entries.get('tasks.csv')), "'=SUM(1)")
  })

  t.test('201: a project by its managers, without what is elsewhere', async (t) => {
    const [project, other] = [await createProject(ada, 'Exported'), await createProject(ada, 'Other')]
    const inside = await createTask(ada, { title: 'Inside', project_id: project.id })
    const outside = await createTask(ada, { title: 'Outside', project_id: other.id })
    await service.expect('addTaskRelation', 204, {
      token: ada.token,
      params: { task_id: inside.id, kind: 'blocks', other_task_id: outside.id },
    })
    const records = await recordsIn(await finishedExport(service, ada, { project_id: project.id }))
    t.strictSame(idsOf(records.tasks), [inside.id])
    t.strictSame(idsOf(records.projects), [project.id])
    t.strictSame(records.relations, [])
    t.strictSame(records.tags, [])
  })

  t.test('201: more than one batch of everything', async (t) => {
    const kim = await service.register('kim')
    const task = await createTask(kim)
    await db.run(
      `insert into tasks (id, title, description, status, priority, owner_id, created_at)
       select gen_random_uuid(), 'Task ' || n, '', 'todo', 'none', $1, now() - n * interval '1 second' from generate_series(1, 450) n`,
      [kim.id],
    )
    await db.run(
      `insert into comments (id, task_id, author_id, body) select gen_random_uuid(), $1, $2, 'Words' from generate_series(1, 450)`,
      [task.id, kim.id],
    )
    const finished = await finishedExport(service, kim)
    const records = await recordsIn(finished, kim)
    t.equal(new Set(idsOf(records.tasks)).size, 451)
    t.equal(new Set(idsOf(records.comments)).size, 450)
  })

  t.test('201: of another user by an administrator, who is audited; the user is told', async (t) => {
    const task = await createTask(bob)
    const remind = { token: bob.token, params: { task_id: task.id }, body: { at: '2090-01-01T00:00:00Z' } }
    await service.expect('createReminder', 201, remind)
    const finished = await finishedExport(service, admin, { user_id: bob.id })
    t.match(finished, { requested_by: admin.id, user_id: bob.id })
    t.same(service.dataExported.at(-1), { to: bob.email })
    const records = await recordsIn(finished, admin)
    t.ok(idsOf(records.tasks).includes(task.id))
    t.ok(records.tasks?.every(({ reminders }) => Array.isArray(reminders) && reminders.length === 0))
    await service.expect('getExport', 404, { token: bob.token, params: { export_id: finished.id } })
    const { body } = await service.expect('listAuditEvents', 200, {
      token: admin.token,
      query: { user_id: bob.id },
    })
    const actions = new Set(body.items.map(({ action }) => action))
    t.ok(actions.has('export.requested'))
    t.ok(actions.has('export.downloaded'))
  })

  t.test('400: a project of another user', async () => {
    const { id: project_id } = await createProject(admin)
    const body = { user_id: bob.id, project_id }
    await service.expect('createExport', 400, { token: admin.token, body })
  })

  t.test(
    '403: of another user, of a project without managing it, without the scope, or long after signing in',
    async () => {
      const project = await createProject(ada)
      await setMember(ada, project, bob, 'editor')
      const { token } = bob
      await service.expect('createExport', 403, { token, body: { user_id: ada.id } })
      await service.expect('createExport', 403, { token, body: { project_id: project.id } })
      await service.expect('createExport', 403, { token: admin.token, body: { project_id: project.id } })
      const weak = await createApiToken(ada, { scopes: ['tasks:read'] })
      await service.expect('createExport', 403, { token: weak.token, body: {} })
      const strong = await createApiToken(ada, { scopes: ['exports:write'] })
      await service.expect('createExport', 201, { token: strong.token, body: {} })
      const tokenOfAdmin = await createApiToken(admin, { scopes: ['exports:write'] })
      await service.expect('createExport', 403, { token: tokenOfAdmin.token, body: { user_id: bob.id } })
      await db.run(`update sessions set authenticated_at = now() - interval '1 hour' where user_id = $1`, [
        bob.id,
      ])
      await service.expect('createExport', 403, { token, body: {} })
      await db.run(`update sessions set authenticated_at = now() where user_id = $1`, [bob.id])
    },
  )

  t.test('404: a project that the user does not see', async () => {
    const { id: project_id } = await createProject(ada)
    await service.expect('createExport', 404, { token: bob.token, body: { project_id } })
  })

  t.test('413: a user keeps 20', async (t) => {
    const lee = await service.register('lee')
    await db.run(
      `insert into exports (id, requested_by, user_id, status) select gen_random_uuid(), $1, $1, 'failed' from generate_series(1, 20)`,
      [lee.id],
    )
    const { body } = await service.expect('createExport', 413, { token: lee.token, body: {} })
    t.match(body, { resource: 'exports', quota: 20, used: 20 })
  })

  t.test('422: another request with the same key', async (t) => {
    const request = { token: ada.token, headers: { 'idempotency-key': 'export-1' } }
    const first = await service.expect('createExport', 201, { ...request, body: {} })
    t.equal((await service.expect('createExport', 201, { ...request, body: {} })).body.id, first.body.id)
    const { id: project_id } = await createProject(ada)
    await service.expect('createExport', 422, { ...request, body: { project_id } })
  })

  t.test('507: the disk for what is between reading and writing is short', async (t) => {
    const config = { diskReserveBytes: Number.MAX_SAFE_INTEGER }
    const times = { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 }
    await noExportRuns(service)
    const short = await startService(t, { db, storage, config, jobTimes: times })
    await short.expect('createExport', 507, { token: ada.token, body: {} })
  })

  t.test('507: there is no space; a repeat needs none', async (t) => {
    const request = { token: ada.token, headers: { 'idempotency-key': 'export-2' }, body: {} }
    const first = await service.expect('createExport', 201, request)
    check = () => Promise.reject(new StorageFull())
    t.equal((await service.expect('createExport', 201, request)).body.id, first.body.id)
    await service.expect('createExport', 507, { token: ada.token, body: {} })
    check = presentCheck
    put = () => Promise.reject(new StorageFull())
    t.match(await endedExport(service, ada), { status: 'failed', failure: 'storage_full' })
    put = presentPut
  })
})

t.test('getExport', async (t) => {
  t.test('200: when to look again, in the header too, until it has ended', async (t) => {
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    put = async (...args) => {
      await mayEnd
      return storage.put(...args)
    }
    const { id: export_id } = await newExport(service, ada)
    const request = { token: ada.token, params: { export_id } }
    const running = await service.expect('getExport', 200, request)
    t.equal(running.body.poll_after_seconds, 2)
    t.equal(running.headers.get('retry-after'), '2')
    put = presentPut
    end()
    await noExportRuns(service)
    const ended = await service.expect('getExport', 200, request)
    t.equal(ended.body.poll_after_seconds, null)
    t.equal(ended.headers.get('retry-after'), null)
  })

  t.test('404: that of somebody else', async () => {
    const { id: export_id } = await newExport(service, ada)
    for (const { token } of [bob, admin])
      await service.expect('getExport', 404, { token, params: { export_id } })
  })
})

t.test('cancelExport', async (t) => {
  t.test('200: one that runs leaves nothing, and one that has ended stays', async (t) => {
    await noExportRuns(service)
    let key = ''
    const { promise: isPutting, resolve: begin } = Promise.withResolvers<void>()
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    put = async (...args) => {
      begin()
      const stored = await storage.put(...args)
      key = stored.key
      await mayEnd
      return stored
    }
    const running = await newExport(service, ada)
    await isPutting
    const request = { token: ada.token, params: { export_id: running.id } }
    await service.expect('cancelExport', 412, { ...request, headers: { 'if-match': '"99"' } })
    const { body } = await service.expect('cancelExport', 200, request)
    t.match(body, { status: 'cancelled', poll_after_seconds: null, ended_at: /Z$/ })
    put = presentPut
    end()
    await eventually('its file is gone', () => isGone(storage, key))
    t.equal((await service.expect('cancelExport', 200, request)).body.version, body.version)
    await service.expect('downloadExport', 409, request)
  })
})

t.test('deleteExport', async (t) => {
  t.test('204: with its file', async (t) => {
    const finished = await finishedExport(service, ada)
    const [row] = await db.run('select storage_key from exports where id = $1', [finished.id])
    const request = { token: ada.token, params: { export_id: finished.id } }
    await service.expect('deleteExport', 412, { ...request, headers: { 'if-match': '"2"' } })
    await service.expect('deleteExport', 204, request)
    await service.expect('getExport', 404, request)
    await eventually('the file is gone', () => isGone(storage, String(row?.storage_key)))
    t.pass('the file is gone')
  })

  t.test('204: with its user, and after its time', async (t) => {
    const zoe = await service.register('zoe')
    const finished = await finishedExport(service, zoe)
    const old = await finishedExport(service, ada)
    const keys = await db.run('select storage_key from exports where id in ($1, $2)', [finished.id, old.id])
    await service.expect('deleteUser', 204, { token: zoe.token, params: { user_id: 'me' } })
    await db.run(`update exports set expires_at = now() - interval '1 second' where id = $1`, [old.id])
    await expireExports(db, new AbortController().signal)
    t.match(await read(old), { status: 'expired' })
    for (const { storage_key: key } of keys) {
      const queued = await db.run('select from file_deletions where storage_key = $1', [key])
      // The job may have removed it since.
      t.ok(queued.length === 1 || (await isGone(storage, String(key))))
    }
    await service.expect('downloadExport', 409, { token: ada.token, params: { export_id: old.id } })
  })
})

t.test('downloadExport', async (t) => {
  t.test('206: a range; 304 and 412 by the digest', async (t) => {
    const finished = await finishedExport(service, ada)
    const request = { token: ada.token, params: { export_id: finished.id } }
    const whole = await service.expect('downloadExport', 200, request)
    t.equal(whole.headers.get('etag'), `"${finished.sha256}"`)
    t.match(
      whole.headers.get('content-disposition'),
      /^attachment; filename=taskwright-\d{4}-\d\d-\d\d\.zip$/,
    )
    t.equal(whole.headers.get('content-type'), 'application/zip')
    const part = await service.expect('downloadExport', 206, { ...request, headers: { range: 'bytes=0-3' } })
    t.equal(part.headers.get('content-range'), `bytes 0-3/${finished.size}`)
    await service.expect('downloadExport', 416, { ...request, headers: { range: 'bytes=999999999-' } })
    await service.expect('downloadExport', 304, {
      ...request,
      headers: { 'if-none-match': `"${finished.sha256}"` },
    })
    await service.expect('downloadExport', 412, { ...request, headers: { 'if-match': '"other"' } })
  })

  t.test('409: the right is lost, before and after the end', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'manager')
    const body = { project_id: project.id }
    const finished = await finishedExport(service, bob, body)
    await noExportRuns(service)
    const { promise: isPutting, resolve: begin } = Promise.withResolvers<void>()
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    put = async (...args) => {
      begin()
      const stored = await storage.put(...args)
      await mayEnd
      return stored
    }
    const running = await newExport(service, bob, body)
    await isPutting
    await removeMember(ada, project, bob)
    end()
    put = presentPut
    await eventually('it fails', async () => (await read(running, bob)).failure === 'access_lost')
    for (const { id: export_id } of [finished, running])
      await service.expect('downloadExport', 409, { token: bob.token, params: { export_id } })
    await expireExports(db, new AbortController().signal)
    t.match(await read(finished, bob), { status: 'expired' })
  })

  t.test('404: that of somebody else', async () => {
    const { id: export_id } = await finishedExport(service, ada)
    await service.expect('downloadExport', 404, { token: bob.token, params: { export_id } })
  })

  t.test('403: of another user by an API token, also before it has finished', async () => {
    await noExportRuns(service)
    const { token } = await createApiToken(admin, { scopes: ['exports:write'] })
    const { id: export_id } = await newExport(service, admin, { user_id: bob.id })
    const params = { export_id }
    await service.expect('downloadExport', 403, { token, params })
    await noExportRuns(service)
    await service.expect('downloadExport', 403, { token, params })
    await service.expect('createExportLink', 403, { token, params })
    await service.expect('downloadExport', 200, { token: admin.token, params })
    const own = { token, params: { export_id: (await finishedExport(service, admin)).id } }
    await service.expect('downloadExport', 200, own)
    await service.expect('createExportLink', 201, own)
  })

  t.test('403: of another user by somebody who is no administrator any more; 409: by a link', async () => {
    const kit = await service.register('kit')
    await setRole(kit, 'admin')
    const finished = await finishedExport(service, kit, { user_id: bob.id })
    const link = await linkTo(finished, kit)
    await setRole(kit, 'member')
    await service.expect('downloadLinkedExport', 409, link)
    await service.expect('downloadExport', 403, { token: kit.token, params: { export_id: finished.id } })
  })

  t.test('409: the archive expires while it is opened', async (t) => {
    const finished = await finishedExport(service, ada)
    open = async (...args) => {
      await db.run(`update exports set expires_at = now() - interval '1 second' where id = $1`, [finished.id])
      await expireExports(db, new AbortController().signal)
      await storage.remove(args[0])
      return storage.open(...args)
    }
    const request = { token: ada.token, params: { export_id: finished.id } }
    const reply = await service.call('downloadExport', request)
    open = presentOpen
    t.match(reply, { status: 409, body: { code: 'export_without_file' } })
  })

  t.test('410: the file is missing from the storage', async (t) => {
    const finished = await finishedExport(service, ada)
    await loseFile(finished)
    const request = { token: ada.token, params: { export_id: finished.id } }
    t.match((await service.expect('downloadExport', 410, request)).body, { code: 'file_lost' })
  })
})

/** The request of a new link to an export. */
const linkTo = async (
  { id: export_id }: Export,
  { token } = ada,
  body: Partial<components['schemas']['ExportLinkCreate']> = {},
) => {
  const params = { export_id }
  const link = (await service.expect('createExportLink', 201, { token, params, body })).body
  return { params, query: new URL(link.url, service.url).search.slice(1) }
}

t.test('createExportLink', async (t) => {
  t.test('201: a path below the service that expires after five minutes', async (t) => {
    const { id: export_id } = await finishedExport(service, ada)
    const request = { token: ada.token, params: { export_id } }
    const { headers, body } = await service.expect('createExportLink', 201, request)
    t.ok(body.url.startsWith(`/exports/${export_id}/content?token=`))
    t.equal(headers.get('location'), body.url)
    t.equal(headers.get('cache-control'), 'no-store')
    const left = Date.parse(body.expires_at) - Date.now()
    t.ok(left > 290_000 && left <= 300_000, `${left} ms left`)
  })

  t.test('404: that of somebody else; 403: without the scope', async () => {
    const params = { export_id: (await finishedExport(service, ada)).id }
    for (const { token } of [bob, admin]) await service.expect('createExportLink', 404, { token, params })
    const { token } = await createApiToken(ada, { scopes: ['tasks:read'] })
    await service.expect('createExportLink', 403, { token, params })
  })

  t.test('409: it has no file', async () => {
    await noExportRuns(service)
    put = () => Promise.reject(new StorageFull())
    const { id: export_id } = await endedExport(service, ada)
    put = presentPut
    await service.expect('createExportLink', 409, { token: ada.token, params: { export_id } })
  })
})

t.test('downloadLinkedExport', async (t) => {
  t.test('200, 206, 304, 412, 416: the archive, a range, and conditions', async (t) => {
    const finished = await finishedExport(service, ada)
    const link = await linkTo(finished)
    const whole = await service.expect('downloadLinkedExport', 200, link)
    t.equal(bytesOf(whole.body).length, finished.size)
    const tag = `"${finished.sha256}"`
    t.equal(whole.headers.get('etag'), tag)
    t.equal(whole.headers.get('cache-control'), 'private, no-cache')
    t.equal(whole.headers.get('cross-origin-resource-policy'), 'same-origin')
    t.match(whole.headers.get('content-disposition'), /^attachment; filename=taskwright-/)
    const by = (headers: Readonly<Record<string, string>>) => ({ ...link, headers })
    const part = await service.expect(
      'downloadLinkedExport',
      206,
      by({ range: 'bytes=4-7', 'if-range': tag }),
    )
    t.equal(part.headers.get('content-range'), `bytes 4-7/${finished.size}`)
    t.same(bytesOf(part.body), bytesOf(whole.body).subarray(4, 8))
    await service.expect('downloadLinkedExport', 304, by({ 'if-none-match': tag }))
    await service.expect('downloadLinkedExport', 412, by({ 'if-match': '"other"' }))
    await service.expect('downloadLinkedExport', 416, by({ range: 'bytes=999999999-' }))
  })

  t.test(
    '404: another token, that of another export or of an attachment, and of a session that ended',
    async () => {
      const [finished, other] = [await finishedExport(service, ada), await finishedExport(service, ada)]
      const { params, query } = await linkTo(finished)
      await service.expect('downloadLinkedExport', 404, { params, query: `${query.slice(0, -4)}AAAA` })
      await service.expect('downloadLinkedExport', 404, { params: { export_id: other.id }, query })
      // An attachment with the id of the export would have another token.
      await service.expect('downloadLinkedAttachment', 404, { params: { attach_id: finished.id }, query })
      const { email, password } = ada
      const { body: session } = await service.expect('login', 200, { body: { email, password } })
      const token = 'access_token' in session ? session.access_token : ''
      const sessionLink = await linkTo(finished, { ...ada, token })
      await service.expect('logout', 204, { token })
      await service.expect('downloadLinkedExport', 404, sessionLink)
    },
  )

  t.test('404, 409: the export is deleted, expired, or the right to have it is lost', async (t) => {
    const [deleted, expired] = [await finishedExport(service, ada), await finishedExport(service, ada)]
    const links = [await linkTo(deleted), await linkTo(expired)] as const
    await service.expect('deleteExport', 204, { token: ada.token, params: links[0].params })
    await service.expect('downloadLinkedExport', 404, links[0])
    await db.run(`update exports set expires_at = now() - interval '1 second' where id = $1`, [expired.id])
    await expireExports(db, new AbortController().signal)
    await service.expect('downloadLinkedExport', 409, links[1])

    const project = await createProject(ada)
    await setMember(ada, project, bob, 'manager')
    const projectLink = await linkTo(await finishedExport(service, bob, { project_id: project.id }), bob)
    await service.expect('downloadLinkedExport', 200, projectLink)
    await removeMember(ada, project, bob)
    t.match((await service.expect('downloadLinkedExport', 409, projectLink)).body, {
      code: 'export_without_file',
      detail: 'You may not have this archive any more.',
    })
  })

  t.test('410: the link has expired, or the file is missing from the storage', async (t) => {
    const finished = await finishedExport(service, ada)
    const [brief, other] = [await linkTo(finished, ada, { expires_in: 1 }), await linkTo(finished)]
    const now = Date.now()
    await eventually('it has expired', () => Promise.resolve(Date.now() > now + 1_500))
    t.match((await service.expect('downloadLinkedExport', 410, brief)).body, { code: 'link_expired' })
    await loseFile(finished)
    t.match((await service.expect('downloadLinkedExport', 410, other)).body, { code: 'file_lost' })
  })

  t.test('200: an administrator’s export of a user is audited at each download', async (t) => {
    const gil = await service.register('gil')
    const link = await linkTo(await finishedExport(service, admin, { user_id: gil.id }), admin)
    const downloads = async () => {
      const query = { user_id: gil.id, action: 'export.downloaded' }
      return (await service.expect('listAuditEvents', 200, { token: admin.token, query })).body.items
    }
    t.strictSame(await downloads(), [])
    await service.expect('downloadLinkedExport', 200, link)
    const [event, ...more] = await downloads()
    t.equal(event?.actor_id, admin.id)
    t.ok(event?.session_id, 'with the session that created the link')
    t.strictSame(more, [])

    const callers: string[] = []
    const beside = await startService(t, {
      db,
      storage,
      jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 },
      aroundDatabase: (db) => ({
        ...db,
        transaction: (...parameters) => {
          callers.push(currentWork().caller)
          return db.transaction(...parameters)
        },
      }),
    })
    await beside.expect('downloadLinkedExport', 200, link)
    t.strictSame(callers, [`links of ${admin.id}`], 'in the share of their links')
  })

  t.test('neither the log nor a problem contains the token', async (t) => {
    const { params, query } = await linkTo(await finishedExport(service, ada))
    const token = query.slice('token='.length, 'token='.length + 40)
    lines.length = 0
    await service.expect('downloadLinkedExport', 200, { params, query })
    const { body } = await service.expect('downloadLinkedExport', 404, {
      params,
      query: `${query.slice(0, -4)}AAAA`,
    })
    t.notMatch(JSON.stringify(body), token)
    const log = lines.join('')
    t.match(log, '"operation_id":"downloadLinkedExport"')
    t.match(log, `"principal_id":"${ada.id}","credential":"link"`)
    t.notMatch(log, token)
  })
})

/** An export whose process has died after so many attempts, once it has ended. */
const interruptedExport = async ({ id, token }: Account, attempts: number): Promise<Export> => {
  await noExportRuns(service)
  const [row] = await db.run(
    `insert into exports (id, requested_by, user_id, status, attempts, lease_id, leased_until)
     values (event_id(now(), 1), $1, $1, 'running', $2, gen_random_uuid(), now() - interval '1 second') returning id::text`,
    [id, attempts],
  )
  const params = { export_id: String(row?.id) }
  await eventually('it has ended', async () => {
    const { body } = await service.expect('getExport', 200, { token, params })
    return body.poll_after_seconds === null
  })
  return (await service.expect('getExport', 200, { token, params })).body
}

t.test('an export whose process died is made by another one, three times at most', async (t) => {
  const mia = await service.register('mia')
  t.match(await interruptedExport(mia, 2), { status: 'finished' })
  t.match(await interruptedExport(mia, 3), { status: 'failed', failure: 'interrupted' })
})

t.test('an older one that waits does not hold up one whose process died', async (t) => {
  const leo = await service.register('leo')
  await noExportRuns(service)
  await db.run(
    `insert into exports (id, requested_by, user_id, status, attempts, lease_id, leased_until, created_at)
     select event_id(now(), 1 + age), $1, $1, status, 1, gen_random_uuid(), now() - interval '1 second', now() - age * interval '1 minute'
     from (values ('running', 1), ('waiting', 2)) given (status, age)`,
    [leo.id],
  )
  await noExportRuns(service)
  const { body } = await service.expect('listExports', 200, { token: leo.token })
  t.match(body.items, [{ status: 'finished' }, { status: 'finished' }])
})

t.test('texts with any separator of lines', async (t) => {
  const una = await service.register('una')
  const title = 'One\u2028two\u2029three\u0085four'
  const task = await createTask(una, { title, description: `${title}\r\nfive` })
  await addComment(una, task.id, title)
  const records = await recordsIn(await finishedExport(service, una), una)
  t.match(records.tasks, [{ title: task.title, description: task.description }])
  t.match(records.comments, [{ body: title }])
})

t.test('a notification of the end', async (t) => {
  const inboxOf = async ({ token }: Account) =>
    (await service.expect('listNotifications', 200, { token, query: { expand: 'task' } })).body.items
  const [ira, ned] = [await service.register('ira'), await service.register('ned')]

  await t.test('for whoever has requested it, alone, whether it has finished or failed', async (t) => {
    const finished = await finishedExport(service, ira)
    const [notification, ...more] = await inboxOf(ira)
    t.strictSame(more, [])
    t.match(notification, {
      reason: 'export',
      export_id: finished.id,
      actor_id: null,
      task_id: null,
      comment_id: null,
      reminder_id: null,
      read_at: null,
      task: undefined,
    })
    const [event] = await db.run(
      'select type, recipient_id from events where id = (select event_id from notifications where export_id = $1)',
      [finished.id],
    )
    t.match(event, { type: 'export.finished', recipient_id: ira.id })

    put = () => Promise.reject(new StorageFull())
    const failed = await endedExport(service, ira)
    put = presentPut
    const interrupted = await interruptedExport(ira, 3)
    t.strictSame(
      (await inboxOf(ira)).map(({ export_id }) => export_id),
      [interrupted.id, failed.id, finished.id],
    )

    const irasExport = await finishedExport(service, admin, { user_id: ira.id })
    t.match(await inboxOf(admin), [{ export_id: irasExport.id }])
    t.equal((await inboxOf(ira)).length, 3)

    const params = { notification_id: notification?.id ?? '' }
    const body = { is_read: true }
    for (const { token } of [ned, admin])
      await service.expect('updateNotification', 404, { token, params, body })
    const read = await service.expect('updateNotification', 200, { token: ira.token, params, body })
    t.match(read.body, { export_id: finished.id, read_at: /Z$/ })
    const until = { until: new Date(Date.now() + 1_000).toISOString() }
    const marked = await service.expect('markNotificationsRead', 200, { token: ira.token, body: until })
    t.match(marked.body, { marked_count: 2 })
  })

  await t.test('goes with the export', async (t) => {
    const { id: export_id } = await finishedExport(service, ned)
    t.match(await inboxOf(ned), [{ export_id }])
    await service.expect('deleteExport', 204, { token: ned.token, params: { export_id } })
    t.strictSame(await inboxOf(ned), [])
  })

  await t.test('is in no digest', async (t) => {
    const settings = { token: ned.token, body: { mail_digest: 'hourly' } }
    await service.expect('updateNotificationSettings', 200, settings)
    await finishedExport(service, ned)
    await db.run(
      `update notification_settings set digest_due_at = now() - interval '1 ms' where user_id = $1`,
      [ned.id],
    )
    t.match(await claimDigest(db), { count: 0 })
  })

  await t.test('not if it was cancelled', async (t) => {
    const fay = await service.register('fay')
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    put = async (...args) => {
      await mayEnd
      return storage.put(...args)
    }
    const { id: export_id } = await newExport(service, fay)
    await service.expect('cancelExport', 200, { token: fay.token, params: { export_id } })
    put = presentPut
    end()
    await noExportRuns(service)
    t.strictSame(await inboxOf(fay), [])
  })
})

t.test('two users at a time', async (t) => {
  await noExportRuns(service)
  const [eva, ian] = [await service.register('eva'), await service.register('ian')]
  const { promise: bothRun, resolve: begin } = Promise.withResolvers<void>()
  let waiting = 0
  put = async (...args) => {
    waiting += 1
    if (waiting === 2) begin()
    await bothRun
    return storage.put(...args)
  }
  const [one, two] = await Promise.all([finishedExport(service, eva), finishedExport(service, ian)])
  put = presentPut
  t.match([one, two], [{ status: 'finished' }, { status: 'finished' }])
})
