import t, { type Test } from 'tap'
import { createClient as connect } from '../../src/db/engine/connection.ts'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { copyTemplate, type ServiceEnvironment } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { archiveOf, entriesOf, recordsOf } from '../fixture/exports.ts'
import { rowsOf, settledImport, uploadedImport } from '../fixture/imports.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient, fileForm } from '../fixture/service.ts'

/**
 * Kills the service while a file is read, imported, exported again, undone, and while what a cancelled import has created is removed: each
 * record is created once, a new project appears whole or not at all, and the report says what became of everything.
 */

const personal = 3_000
const inProject = 600
const total = personal + inProject + 1
/** How many tasks exist at a kill, at least. */
const kills = [300, 1_200]

const content = [
  'title,project',
  ...Array.from({ length: inProject }, (_, n) => `Plant ${n},Garden`),
  ...Array.from({ length: personal }, (_, n) => `Task ${n},`),
].join('\n')

const importTable = async (
  t: Test,
  environment: ServiceEnvironment,
  { isShared }: { readonly isShared: boolean },
): Promise<void> => {
  const start = () => startProcess(t, { ...environment })
  let service = await start()
  let standby = isShared ? await start() : null
  let client = createClient(service.url)
  const ada = await client.register('ada')
  const { token } = ada

  const uploaded = await upload()
  await kill('while it is read')
  const params = { import_id: uploaded.id }
  await run(params)
  for (const wanted of kills) {
    await eventually(`${wanted} tasks exist`, async () => (await count()) >= wanted, 90_000)
    const seen = await projects()
    const { status } = (await client.expect('getImport', 200, { token, params })).body
    // The process that was killed may not be the one that worked.
    if (status === 'running') t.equal(seen.length, 0, 'no project is seen')
    await kill(`with ${await count()} tasks`)
  }
  const ran = await ended(params)
  t.match(ran, { status: 'finished', result: { created: total, skipped: 0, refused: 0 } })
  t.equal(await count(), personal, 'each once')
  t.match(await projects(), [{ name: 'Garden', open_task_count: inProject }])

  const { body: requested } = await client.expect('createExport', 201, { token, body: {} })
  await kill('while it is exported')
  const exported = { token, params: { export_id: requested.id } }
  const statusOf = async () => (await client.expect('getExport', 200, exported)).body.status
  await eventually('it is exported', async () => (await statusOf()) === 'finished', 120_000)
  const { tasks = [] } = recordsOf(await entriesOf(await archiveOf(service, ada, requested)))
  t.equal(new Set(tasks.map(({ title }) => title)).size, personal + inProject)

  await client.expect('undoImport', 200, { token, params })
  await eventually('some are undone', async () => (await count()) < personal - 300, 90_000)
  await kill(`with ${await count()} tasks to undo`)
  t.match(await ended(params), {
    status: 'undone',
    result: { created: total, undone: total, kept: 0 },
    progress: { done: total, total },
  })
  t.equal(await count(), 0)
  t.equal((await projects()).length, 0)

  const next = { import_id: (await upload()).id }
  await run(next)
  await eventually('some tasks exist', async () => (await count()) >= 300, 90_000)
  await client.expect('cancelImport', 200, { token, params: next })
  await kill('while the project is removed')
  const cancelled = await ended(next)
  const { created = 0, undone } = cancelled.result ?? {}
  t.match(cancelled, { status: 'cancelled', failure: null })
  t.equal(undone, inProject + 1, 'the project and its tasks')
  t.equal(await count(), created - inProject - 1, 'what is not in the project stays')
  t.strictSame((await rowsOf(client, ada, next.import_id, 'created')).at(-1)?.type, 'task')
  t.equal((await projects()).length, 0)
  t.equal(await service.end('SIGTERM'), 0)

  async function upload() {
    const { body } = await client.expect('createImport', 201, { token, body: fileForm(content, 'tasks.csv') })
    return body
  }

  /** Kills the process that was asked, which most likely works. With a shared database, another one is running already. */
  async function kill(when: string): Promise<void> {
    t.comment(`killed ${when}`)
    t.equal(await service.end('SIGKILL'), null)
    service = standby ?? (await start())
    standby = isShared ? await start() : null
    client = createClient(service.url)
  }

  /** Runs an import once it has been read. After a kill, the lease of the process has to end. */
  async function run(params: { readonly import_id: string }): Promise<void> {
    const { version, preview } = await ended(params)
    t.match(preview, { tasks: personal + inProject, projects: 1, refused: 0 })
    await client.expect('runImport', 200, { token, params, body: { version } })
  }

  async function ended(params: { readonly import_id: string }) {
    const read = async () => (await client.expect('getImport', 200, { token, params })).body
    await eventually('it has ended', async () => (await read()).poll_after_seconds === null, 120_000)
    return settledImport(client, ada, params.import_id)
  }

  async function projects() {
    return (await client.expect('listProjects', 200, { token })).body.items
  }

  async function count(): Promise<number> {
    const query = { project_id: 'none', limit: 1, include_total: true }
    return (await client.expect('listTasks', 200, { token, query })).body.total ?? 0
  }
}

// Beside each other, because all mostly wait for leases to end.
t.jobs = 3

t.test('with PostgreSQL of the service', { buffered: true }, async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await importTable(t, { DATA_DIR }, { isShared: false })
})

t.test('by two processes with a server', { buffered: true }, async (t) =>
  importTable(
    t,
    { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) },
    { isShared: true },
  ),
)

t.test('while it shows its new project', { buffered: true }, async (t) => {
  const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }
  const killed = await startProcess(t, environment)
  const { register, expect } = createClient(killed.url)
  const ada = await register('ada')
  const { token } = ada
  const file = { name: 'tasks.csv', content: 'title,project\nWeed,Garden\nSow,Garden\n' }
  const { id: import_id, version } = await uploadedImport({ expect }, ada, file)
  const params = { import_id }

  // The transaction that shows a project waits for a lock when it has shown it.
  const db = connect({ url: environment.DATABASE_URL })
  t.teardown(() => db.end())
  await db.unsafe(`
    select pg_advisory_lock(1);
    create function wait_when_shown() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(1); return null; end $$;
    create trigger wait_when_shown after update on projects for each row
      when (old.deleted_at is not null and new.deleted_at is null) execute function wait_when_shown()`)
  await expect('runImport', 200, { token, params, body: { version } })
  await eventually('it waits', async () => {
    const waiting =
      await db`select from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`
    return waiting.length === 1
  })
  t.strictSame((await expect('listProjects', 200, { token })).body.items, [], 'no project is seen')
  t.equal(await killed.end('SIGKILL'), null)
  await db`select pg_advisory_unlock(1)`

  const service = await startProcess(t, environment)
  const client = createClient(service.url)
  const read = async () => (await client.expect('getImport', 200, { token, params })).body
  await eventually('it has ended', async () => (await read()).poll_after_seconds === null, 120_000)
  t.match(await read(), { status: 'finished', result: { created: 3, skipped: 0, refused: 0 } })
  const { items } = (await client.expect('listProjects', 200, { token })).body
  t.match(items, [{ name: 'Garden', open_task_count: 2 }])
  const notifications = (await client.expect('listNotifications', 200, { token })).body.items
  t.equal(notifications.filter(({ reason }) => reason === 'import').length, 1, 'told once')
})
