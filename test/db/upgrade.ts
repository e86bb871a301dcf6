import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { newApiToken } from '../../src/auth/api-tokens.ts'
import { deriveKeys } from '../../src/auth/keys.ts'
import { newRefreshToken } from '../../src/auth/opaque-tokens.ts'
import { passwordHasher } from '../../src/auth/passwords.ts'
import { type Database, openDatabase } from '../../src/db/client.ts'
import { createClient } from '../../src/db/connection.ts'
import { newId } from '../../src/db/ids.ts'
import { migrate, readMigrationState } from '../../src/db/migrate.ts'
import { migrateWhenPossible } from '../../src/db/when-migrated.ts'
import { newKey, ownerName } from '../../src/storage/keys.ts'
import { sweep } from '../../src/sweeper.ts'
import { createTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { fileForm, startService, testHashing } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { pieceHeaders } from '../fixture/uploads.ts'

/**
 * A database that has been through every version, with rows of each, is brought up to date: everything is there, as the API
 * tells it, and goes on.
 */

const migrations = fileURLToPath(new URL('../../src/db/migrations', import.meta.url))
const { entries } = JSON.parse(await readFile(join(migrations, 'meta', '_journal.json'), 'utf8')) as {
  readonly entries: readonly { readonly tag: string }[]
}

const { options } = await createTestDatabase(t)
let connected = openDatabase(options)
// Each migration has a connection of its own, and the embedded database takes one at a time.
const db: Database = {
  run: (...parameters) => connected.run(...parameters),
  pending: () => connected.pending(),
  close: () => connected.close(),
}
t.teardown(() => db.close())
const service = await startService(t, { db })
const { storage, secrets } = service.deps
await eventually(
  'the first round of the sweeper is over',
  async () => (await db.run('select from leases', [])).length === 0 && (await storage.readOwner()) !== null,
)

/** Does something to the database while the service does not. */
const meanwhile = async (work: () => Promise<unknown>): Promise<void> => {
  await connected.close()
  await work().finally(() => (connected = openDatabase(options)))
}

/** The migrations of the version that had so many of them. */
const folderOf = async (count: number): Promise<string> => {
  const folder = join(await temporaryFolder(t), 'migrations')
  await mkdir(join(folder, 'meta'), { recursive: true })
  const kept = entries.slice(0, count)
  for (const name of await readdir(migrations))
    if (kept.some(({ tag }) => name === `${tag}.sql`)) await cp(join(migrations, name), join(folder, name))
  await writeFile(join(folder, 'meta', '_journal.json'), JSON.stringify({ entries: kept }))
  return folder
}

/** An empty database of the version that had so many migrations. */
const begin = async (count: number): Promise<void> => {
  const client = createClient(options)
  await client
    .unsafe('drop schema public cascade; create schema public; drop schema drizzle cascade')
    .simple()
    .finally(() => client.end())
  await migrate(options, await folderOf(count))
}

/** The columns of each table, as `table.column`. */
const readColumns = async (): Promise<ReadonlySet<string>> => {
  const text = `select table_name || '.' || column_name as name from information_schema.columns where table_schema = 'public'`
  return new Set((await db.run(text, [], 'once')).map(({ name }) => String(name)))
}

let columns: ReadonlySet<string> = new Set()

/** Inserts a row with those of its columns that there are; false when there is no such table. */
const insert = async (table: string, row: Readonly<Record<string, unknown>>): Promise<boolean> => {
  const given = Object.keys(row).filter((name) => columns.has(`${table}.${name}`))
  if (given.length === 0) return false
  const values = given.map((_, index) => `$${index + 1}`)
  await db.run(
    `insert into ${table} (${given.join()}) values (${values.join()})`,
    given.map((name) => row[name]),
    'once',
  )
  return true
}

const password = 'the password of then'
const password_hash = await passwordHasher({ parameters: testHashing }).hash(password)
const created_at = '2026-01-02T03:04:05.678Z'
const times = { created_at, updated_at: '2026-02-03T04:05:06.789Z' }
const content = Buffer.from('A file from before\n')

const store = async (bytes: Buffer) => storage.put(Readable.from([bytes]), { maxBytes: bytes.length })

/** What is made with so many migrations, in words of then: a row for everything that the schema has a table for. */
const seed = async (count: number) => {
  columns = await readColumns()
  const [ada, bob, tag, plan, done, trashed] = [newId(), newId(), newId(), newId(), newId(), newId()]
  const [attachment, upload, session, audit] = [newId(), newId(), newId(), newId()]
  const [refresh, api] = [newRefreshToken(), newApiToken()]
  const person = { display_name: 'Then', password_hash, ...times }
  await insert('users', {
    id: ada,
    username: `ada${count}`,
    email: `ada${count}@example.com`,
    role: 'admin',
    version: 3,
    ...person,
  })
  const { username, email } = { username: `bob${count}`, email: `bob${count}@example.com` }
  await insert('users', { id: bob, username, email, role: 'member', ...person })
  if (count === 1) await insert('installation', { singleton: true })
  await insert('tags', {
    id: tag,
    name: `Outdoors ${count}`,
    name_folded: `outdoors ${count}`,
    color: '#2d7d46',
    owner_id: ada,
    created_at,
  })

  const task = { description: '', status: 'todo', priority: 'none', owner_id: ada, ...times }
  await insert('tasks', {
    ...task,
    id: plan,
    title: 'Éclair trip',
    title_folded: 'Éclair trip',
    description: 'By bicycle',
    priority: 'high',
    due_at: '2027-05-14T16:00:00.000Z',
    assignee_id: bob,
    version: 4,
  })
  await insert('tasks', {
    ...task,
    id: done,
    title: 'Buy a tent',
    title_folded: 'buy a tent',
    status: 'done',
    completed_at: '2026-02-03T00:00:00.000Z',
    owner_id: bob,
  })
  const hasTrash = columns.has('tasks.deleted_at')
  if (hasTrash)
    await insert('tasks', {
      ...task,
      id: trashed,
      title: 'Thrown away',
      title_folded: 'thrown away',
      deleted_at: new Date().toISOString(),
    })
  await insert('task_tags', { task_id: plan, tag_id: tag })

  const file = await store(content)
  const about = { file_name: 'list.txt', content_type: 'text/plain' }
  await insert('attachments', {
    ...about,
    id: attachment,
    task_id: plan,
    size: file.size,
    sha256: file.sha256,
    storage_key: file.key,
    uploaded_by: bob,
    created_at,
  })
  // The first migration comes with the second, which has the trigger that counts.
  await db.run('update tasks set attachment_count = 1 where id = $1 and attachment_count = 0', [plan], 'once')
  const removed = await store(Buffer.from('Of an attachment that was deleted'))
  await insert('file_deletions', { storage_key: removed.key })

  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  await insert('sessions', { id: session, user_id: ada, created_at, expires_at: tomorrow })
  await insert('refresh_tokens', { hash: refresh.hash, session_id: session, expires_at: tomorrow })
  const hasApiTokens = await insert('api_tokens', {
    id: newId(),
    user_id: ada,
    name: 'report',
    hash: api.hash,
    scopes: '{tasks:read}',
  })
  const hasAudit = await insert('audit_events', {
    id: audit,
    action: 'sign_in.succeeded',
    actor_id: ada,
    user_id: ada,
    request_id: 'then',
  })

  const unfinished = { key: newKey(), size: 5 }
  const hasUploads = await insert('uploads', {
    ...about,
    id: upload,
    task_id: plan,
    user_id: ada,
    upload_metadata: `filename ${Buffer.from(about.file_name).toString('base64')}`,
    upload_length: unfinished.size,
    upload_offset: 2,
    storage_key: unfinished.key,
    expires_at: tomorrow,
  })
  if (hasUploads) {
    const options = { whole: false, hold: async () => undefined }
    await Array.fromAsync(storage.append(unfinished, 0, Readable.from([Buffer.from('he')]), options))
  }
  return {
    count,
    ids: { ada, bob, tag, plan, done, attachment },
    keys: { file: file.key, removed: removed.key },
    refreshToken: refresh.token,
    trashed: hasTrash ? trashed : null,
    apiToken: hasApiTokens ? api.token : null,
    audit: hasAudit ? audit : null,
    upload: hasUploads ? upload : null,
  }
}

/** What a task's and a user's ETag is made of, and what a client sees of the time. */
const versions = async () =>
  db.run(
    `select id::text, version, updated_at::text from tasks union all select id::text, version, updated_at::text from users order by 1`,
    [],
    'once',
  )

const log = service.app.log.child({})
const warnings: unknown[] = []
log.warn = log.error = (...parts: unknown[]) => void warnings.push(parts)

const round = {
  db,
  storage,
  secondFactorKeys: deriveKeys(secrets, 'second-factor'),
  auditDays: 365_000,
  trashDays: 30,
  log,
}

const seeds: Awaited<ReturnType<typeof seed>>[] = []
/** The versions of users and tasks when the last migration was done. */
const versionOf = new Map<unknown, number>()

await t.test('from version to version nothing changes that a client sees', async (t) => {
  await meanwhile(() => begin(1))
  for (let count = 2; count <= entries.length; count += 1) {
    seeds.push(await seed(count - 1))
    const before = await versions()
    const folder = await folderOf(count)
    await meanwhile(() => migrate(options, folder))
    const after = await versions()
    t.strictSame(after, before, `to ${entries[count - 1]?.tag}`)
    for (const { id, version } of after) versionOf.set(id, Number(version))
  }
})

for (const { count, ids, refreshToken, trashed, apiToken, audit, upload } of seeds) {
  await t.test(`what was made at ${entries[count - 1]?.tag}`, async (t) => {
    const { body: session } = await service.expect('refreshToken', 200, {
      body: { refresh_token: refreshToken },
    })
    const { access_token: token, user } = session
    t.match(user, { id: ids.ada, username: `ada${count}`, role: 'admin', version: 3, created_at })
    await service.expect('login', 200, { body: { email: `bob${count}@example.com`, password } })
    const { body: users } = await service.expect('listUsers', 200, { token, query: { q: `bob${count}` } })
    t.match(
      users.items.find(({ id }) => id === ids.bob),
      { role: 'member' },
    )

    const params = { task_id: ids.plan }
    const { body: plan, headers } = await service.expect('getTask', 200, { token, params })
    const version = versionOf.get(ids.plan) ?? 0
    t.match(plan, { title: 'Éclair trip', assignee_id: ids.bob, attachment_count: 1, version, created_at })
    t.match(plan.tags, [{ id: ids.tag, name: `Outdoors ${count}` }])
    t.equal(headers.get('etag'), `"${version}"`)

    const titles = async (query: Readonly<Record<string, string>>): Promise<readonly string[]> => {
      const { body } = await service.expect('listTasks', 200, {
        token,
        query: { ...query, owner_id: [ids.ada, ids.bob], include_total: 'true' },
      })
      t.equal(body.total, body.items.length)
      return body.items.map(({ title }) => title).toSorted()
    }
    t.strictSame(await titles({}), ['Buy a tent', 'Éclair trip'])
    t.strictSame(await titles({ q: 'eclair bicycle' }), ['Éclair trip'], 'its words are found')
    t.strictSame(await titles({ filter: 'title:"clair"' }), ['Éclair trip'], 'and parts of them')
    t.strictSame(await titles({ tag_id: ids.tag, priority: 'high' }), ['Éclair trip'])
    t.strictSame(await titles({ status: 'done', sort: 'title' }), ['Buy a tent'])

    const file = await service.expect('downloadAttachment', 200, {
      token,
      params: { attach_id: ids.attachment },
    })
    t.same(Buffer.from(file.body as unknown as Uint8Array), content)
    const own = new Set<unknown>([...Object.values(ids), trashed])
    const { body: trash } = await service.expect('listTrash', 200, { token })
    t.strictSame(
      trash.items.map(({ id }) => id).filter((id) => own.has(id)),
      [trashed].filter((id) => id !== null),
    )
    if (apiToken !== null) await service.expect('listTasks', 200, { token: apiToken })
    if (audit !== null) {
      const { body } = await service.expect('listAuditEvents', 200, { token, query: { limit: 200 } })
      t.ok(body.items.some(({ id }) => id === audit))
    }

    const changes = async (query: { since?: string }) => {
      const { body } = await service.expect('listTaskChanges', 200, {
        token,
        query: { limit: 200, ...query },
      })
      const changed = body.changed.map(({ id }) => id).toSorted()
      const told = [changed, body.deleted].map((list) => list.filter((id) => own.has(id)))
      return { told, next: body.next_cursor }
    }
    // A transaction that runs in another database of the server holds back what is told.
    const twoChanges = async (query: { since?: string }) => {
      await eventually('two changes are told', async () => (await changes(query)).told.flat().length === 2)
      return await changes(query)
    }
    const known = await twoChanges({})
    t.strictSame(known.told, [[ids.plan, ids.done].toSorted(), []])
    const changed = await service.expect('updateTask', 200, {
      token,
      params,
      headers: { 'if-match': `"${version}"` },
      body: { title: 'Zeppelin trip' },
    })
    t.equal(changed.body.version, version + 1)
    await service.expect('deleteTask', 204, { token, params: { task_id: ids.done } })
    t.strictSame((await twoChanges({ since: known.next })).told, [[ids.plan], [ids.done]])
    t.strictSame(await titles({ q: 'zeppelin' }), ['Zeppelin trip'])
    await service.expect('restoreTask', 200, { token, params: { task_id: ids.done } })

    await service.expect('createTask', 201, { token, body: { title: 'Afterwards', tag_ids: [ids.tag] } })
    await service.expect('addTaskAttachment', 201, { token, params, body: fileForm('new') })
    if (upload !== null) {
      const rest = {
        token,
        params: { upload_id: upload },
        headers: pieceHeaders(2),
        body: Buffer.from('llo'),
      }
      await service.expect('appendUpload', 204, rest)
    }
    const { body: after } = await service.expect('getTask', 200, { token, params })
    t.equal(after.attachment_count, upload === null ? 2 : 3)
  })
}

await t.test('all of it together', async (t) => {
  const { body: eve } = await service.expect('register', 201, {
    body: { username: 'eve', email: 'eve@example.com', password },
  })
  t.equal(eve.user.role, 'member', 'there is an administrator already')
  const { body: session } = await service.expect('login', 200, {
    body: { email: 'ada1@example.com', password },
  })
  const { body: tasks } = await service.expect('listTasks', 200, {
    token: session.access_token,
    query: { limit: 200 },
  })
  t.equal(tasks.items.length, 3 * seeds.length)
  const unequal = `select username from users where attachment_bytes <> (
    select coalesce(sum(size), 0) from attachments where uploaded_by = users.id)`
  t.equal((await db.run(unequal, [], 'once')).length, 0, 'the quota counts what there was')

  // Nothing said whose the files are.
  await rm(join(service.filesFolder, ownerName), { force: true })
  await sweep(round)
  t.strictSame(warnings.splice(0), [], 'the files are its own')
  const stored = new Set((await filesBelow(service.filesFolder)).map((path) => basename(path)))
  for (const { keys } of seeds) {
    t.ok(stored.has(keys.file))
    t.notOk(stored.has(keys.removed), 'a file that waited for its removal is gone')
  }
})

await t.test('a version that does not know the newest migrations', async (t) => {
  const newer = `insert into drizzle.__drizzle_migrations (hash, created_at) values ('newer', 9000000000000)`
  await db.run(newer, [], 'once')
  await db.run('alter table tasks add column mood text', [], 'once')
  await meanwhile(async () => {
    const told: string[] = []
    const stopping = new AbortController()
    const log = { warn: (message: string) => void told.push(message) }
    await migrateWhenPossible(options, { log, signal: stopping.signal })
    t.match(told, [/^The database has 1 migrations of a newer Taskwright; this one works on it/])
    t.match(await readMigrationState(options), { applied: entries.length, pending: 0, unknown: 1 })
  })
  const { body } = await service.expect('login', 200, { body: { email: 'ada1@example.com', password } })
  const token = body.access_token
  const { body: task } = await service.expect('createTask', 201, {
    token,
    body: { title: 'Beside a newer one' },
  })
  const params = { task_id: task.id }
  await service.expect('updateTask', 200, { token, params, body: { status: 'done' } })
  await service.expect('deleteTask', 204, { token, params })
})

await t.test('tasks that were completed while the clock was set back', async (t) => {
  const before = entries.findIndex(({ tag }) => tag.endsWith('_task_times_rules'))
  await meanwhile(() => begin(before))
  const { ids, refreshToken } = await seed(before)
  await db.run(
    `update tasks set completed_at = created_at - interval '1 hour' where id = $1`,
    [ids.done],
    'once',
  )
  const [then] = await db.run('select version from tasks where id = $1', [ids.done], 'once')
  await meanwhile(() => migrate(options))

  const { body: session } = await service.expect('refreshToken', 200, {
    body: { refresh_token: refreshToken },
  })
  const { body: task } = await service.expect('getTask', 200, {
    token: session.access_token,
    params: { task_id: ids.done },
  })
  t.equal(task.completed_at, created_at)
  t.equal(task.version, Number(then?.version) + 1, 'its ETag is another one')
})
