import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createClient } from '../src/db/engine/connection.ts'
import { copyTemplate, createEmptyDatabase, createTestDatabase } from './fixture/database.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { startMailServer } from './fixture/smtp.ts'

const doctor = fileURLToPath(new URL('../scripts/operate/doctor.ts', import.meta.url))
const serverUrl = process.env.DATABASE_URL

t.test('all checks pass for a valid configuration, and no mail is sent', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  if (serverUrl === undefined) await copyTemplate(DATA_DIR)
  const database = serverUrl === undefined ? null : await createTestDatabase(t)
  const mail = await startMailServer(t)
  const { code, output } = await runProcess(
    {
      DATA_DIR,
      ...(database?.options.kind === 'server' && { DATABASE_URL: database.options.url }),
      SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
      PUBLIC_URL: 'https://tasks.example.com',
    },
    doctor,
  )
  t.match(output, /ok +database: .*PostgreSQL \d+\.\d+, [1-9]\d* migrations applied$/m)
  t.match(output, /ok +storage: /)
  t.match(output, /ok +email: /)
  t.match(output, /All checks passed\.$/)
  t.equal(code, 0)
  t.equal(mail.received.length, 0, 'no mail is sent')
})

t.test('a running service that uses the embedded database is part of the report', async (t) => {
  const environment = { DATA_DIR: await temporaryFolder(t) }
  await copyTemplate(environment.DATA_DIR)
  const service = await startProcess(t, environment)
  const { code, output } = await runProcess(environment, doctor)
  t.match(output, /^ok +database: in use by the running service; check GET .health.ready$/m)
  for (const line of output.split('\n')) t.match(line, /^ok +\w|^All checks passed\.$/)
  t.equal(code, 0)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('failures are reported with a remedy, and without secrets', async (t) => {
  const { code, output } = await runProcess(
    {
      DATA_DIR: '/proc/nope',
      DATABASE_URL: 'postgres://nobody:hunter2@127.0.0.1:1/none',
      REDIS_URL: 'redis://:hunter2@127.0.0.1:1',
      SMTP_URL: 'smtp://user:hunter2@127.0.0.1:1',
      STORAGE_URL: 's3://bucket?endpoint=http://127.0.0.1:1',
      PUBLIC_URL: 'https://tasks.example.com',
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'hunter2',
    },
    doctor,
  )
  t.match(output, /FAIL +folder: .*DATA_DIR .proc.nope .*choose another folder/)
  t.match(output, /FAIL +database: .*ECONNREFUSED.*Check DATABASE_URL/)
  t.match(output, /FAIL +redis: .*ECONNREFUSED.*Check REDIS_URL/)
  t.match(output, /FAIL +email: .*ECONNREFUSED.*Check SMTP_URL/)
  t.match(output, /FAIL +storage: .*Check STORAGE_URL/)
  t.notMatch(output, 'hunter2')
  t.equal(code, 1)
})

t.test('nothing is created', async (t) => {
  const parent = await temporaryFolder(t)
  const fresh = await runProcess({ DATA_DIR: join(parent, 'data') }, doctor)
  t.match(fresh.output, /ok +folder: .* does not exist yet/)
  t.match(fresh.output, /ok +storage: none yet/)
  t.match(fresh.output, /All checks passed\.$/)
  t.strictSame(await readdir(parent), [])
  t.equal(fresh.code, 0)
})

t.test('a HOST that is not an address of this machine fails', async (t) => {
  const { code, output } = await runProcess({ DATA_DIR: await temporaryFolder(t), HOST: '192.0.2.1' }, doctor)
  t.match(output, /FAIL +host: HOST 192\.0\.2\.1 is not an address of this machine/)
  t.equal(code, 1)
})

t.test('an invalid configuration is reported as at the start', async (t) => {
  const { code, output } = await runProcess({ PORT: 'eighty' }, doctor)
  t.match(output, /FAIL +Invalid configuration:\nPORT must be/)
  t.equal(code, 1)
})

const skip = serverUrl === undefined && 'needs a server'

t.test('a wrong password, a missing database and missing migrations are reported', { skip }, async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const run = async (change: (url: URL) => void) => {
    const url = new URL(options.url)
    change(url)
    return runProcess({ DATA_DIR: await temporaryFolder(t), DATABASE_URL: url.href }, doctor)
  }
  t.match((await run((url) => (url.password = 'wrong'))).output, /password authentication failed/)
  t.match((await run((url) => (url.pathname = 'nothing'))).output, /"nothing" does not exist/)
  t.match((await run(() => undefined)).output, /0 migrations applied; the next start applies \d+/)
})

t.test('a newer schema passes; missing permissions and a read-only database fail', { skip }, async (t) => {
  const { options } = await createTestDatabase(t)
  const url = options.kind === 'server' ? options.url : ''
  const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url }
  const sql = createClient(options)
  t.teardown(() => sql.end())
  await sql`insert into drizzle.__drizzle_migrations (hash, created_at) values ('of tomorrow', 9999999999999)`
  const newer = await runProcess(environment, doctor)
  t.match(
    newer.output,
    /ok +database: .* applied; 1 more are from a newer version of Taskwright: this version/,
  )
  t.equal(newer.code, 0)

  // Even the owner of a table can lack permissions on it.
  await sql`revoke insert on tasks from current_user`
  const denied = await runProcess(environment, doctor)
  t.match(denied.output, /FAIL +database: The database user lacks permissions on tasks\. /)
  t.equal(denied.code, 1)
  await sql`grant insert on tasks to current_user`

  const name = new URL(url).pathname.slice(1)
  await sql.unsafe(`alter database ${name} set default_transaction_read_only = on`)
  const readOnly = await runProcess(environment, doctor)
  t.match(readOnly.output, /FAIL +database: It is read-only/)
  t.equal(readOnly.code, 1)
})
