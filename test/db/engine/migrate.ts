import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Teardown } from '../../../scripts/run/run-to-end.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { SchemaUnknown } from '../../../src/db/engine/errors.ts'
import { migrate, readMigrationState, readSchema, type Schema } from '../../../src/db/engine/migrate.ts'
import { migrateWhenPossible } from '../../../src/db/engine/when-migrated.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { temporaryFolder } from '../../fixture/process.ts'
import { startService } from '../../fixture/service.ts'

/** Versions of the service on one database during a rolling upgrade. */

const own = fileURLToPath(new URL('../../../src/db', import.meta.url))
const { options } = await createTestDatabase(t)

/** Runs one statement on a temporary connection. */
const run = async (text: string) => {
  const db = openDatabase(options)
  return db.run(text, [], 'once').finally(() => db.close())
}

/** A version of this schema with changed routines. */
const schemaWith = async (t: Teardown, change: (routines: string) => string): Promise<Schema> => {
  const folder = join(await temporaryFolder(t), 'db')
  await mkdir(folder)
  await cp(join(own, 'migrations'), join(folder, 'migrations'), { recursive: true })
  const routines = await readFile(join(own, 'routines.sql'), 'utf8')
  await writeFile(join(folder, 'routines.sql'), change(routines))
  return readSchema(folder)
}

const { revision } = readSchema().routines
const atRevision = (wanted: number, mark: string) => (routines: string) =>
  `${routines.replace(/^-- Revision \d+/, `-- Revision ${wanted}`)}
    create or replace function mark() returns text language sql as $$ select '${mark}' $$;`
const readMark = async () => (await run('select mark()'))[0]?.mark

t.test('an up-to-date database is not changed', async (t) => {
  await migrate(options, { onPending: () => t.fail('something is applied') })
  t.match(await readMigrationState(options), { pending: 0, unknown: 0 })
})

t.test('changed routines are applied again', async (t) => {
  const changed = await schemaWith(t, atRevision(revision, 'changed'))
  await migrate(options, { schema: changed })
  t.equal(await readMark(), 'changed')
  t.match(await readMigrationState(options), { pending: 1 }, 'the original routines differ again')
  await migrate(options)
  t.match(await readMigrationState(options), { pending: 0 })
})

t.test('an older version works on a newer schema and does not replace its routines', async (t) => {
  await migrate(options, { schema: await schemaWith(t, atRevision(revision + 1, 'newer')) })
  await run(`insert into drizzle.__drizzle_migrations (hash, created_at) values ('newer', 9000000000000)`)
  await run('alter table tasks add column mood text')
  await run(`create or replace function mark() returns text language sql as $$ select 'by hand' $$`)

  const warnings: string[] = []
  const warn = (message: string) => void warnings.push(message)
  await migrateWhenPossible(options, {
    prepare: async () => undefined,
    log: { info: warn, warn },
    signal: new AbortController().signal,
  })
  t.match(warnings, [/^The database has 1 migrations from a newer version of Taskwright/])
  t.match(await readMigrationState(options), { pending: 0, unknown: 1 })
  t.equal(await readMark(), 'by hand', 'the newer routines were not replaced')

  const db = openDatabase(options)
  t.teardown(() => db.close())
  const service = await startService(t, { db })
  const { body: session } = await service.expect('register', 201, {
    body: { username: 'ada', email: 'ada@example.com', password: 'correct horse battery' },
  })
  const token = session.access_token
  const { body: task } = await service.expect('createTask', 201, {
    token,
    body: { title: 'Beside a newer one' },
  })
  const params = { task_id: task.id }
  await service.expect('updateTask', 200, { token, params, body: { status: 'done' } })
  await service.expect('deleteTask', 204, { token, params })
})

t.test('a migration can take longer than statement_timeout', async (t) => {
  const { options: other } = await createTestDatabase(t)
  const db = openDatabase(other)
  t.teardown(() => db.close())
  // As set for a role behind a pooler, which ignores the settings of connections.
  await db.run(
    `do $$ begin execute format('alter database %I set statement_timeout = 900', current_database()); end $$`,
    [],
    'once',
  )
  const slow = (routines: string) => `${atRevision(revision + 1, 'slow')(routines)} select pg_sleep(1);`
  await migrate(other, { schema: await schemaWith(t, slow) })
  t.match(await db.run('select mark()', [], 'once'), [{ mark: 'slow' }])
})

t.test('a database from before the first release is refused', async (t) => {
  const { options: other } = await createTestDatabase(t)
  const change = openDatabase(other)
  await change.run('update drizzle.__drizzle_migrations set created_at = created_at - 1', [], 'once')
  await change.close()
  await t.rejects(migrate(other), new SchemaUnknown())
})

t.test('routines without a revision are refused', async (t) => {
  await t.rejects(
    schemaWith(t, (routines) => routines.slice(1)),
    /does not begin with "-- Revision/,
  )
})
