import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readdir, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createClient } from '../src/db/engine/connection.ts'
import { SchemaUnknown } from '../src/db/engine/errors.ts'
import {
  copyTemplate,
  createEmptyDatabase,
  createTestDatabase,
  dropOnServer,
  environmentOfEarlierSchema,
} from './fixture/database.ts'
import { folderState, runProcess, runUnprivileged, startProcess, temporaryFolder } from './fixture/process.ts'
import { startMailServer } from './fixture/smtp.ts'

const doctor = fileURLToPath(new URL('../scripts/operate/doctor.ts', import.meta.url))
const serverUrl = process.env.DATABASE_URL ?? ''

t.test('all checks pass for a valid configuration, and no mail is sent', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  const { options } = await createTestDatabase(t)
  const mail = await startMailServer(t)
  const { code, output } = await runProcess(
    {
      DATA_DIR,
      DATABASE_URL: options.url,
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

t.test('the running service and its database are part of the report', async (t) => {
  const environment = { DATA_DIR: await temporaryFolder(t) }
  await copyTemplate(environment.DATA_DIR)
  const service = await startProcess(t, environment)
  const { code, output } = await runProcess(environment, doctor)
  t.match(output, /^ok +database: PostgreSQL 18\.\d+ in DATA_DIR, \d+ migrations applied$/m)
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
  t.match(fresh.output, /ok +postgres: 18\.\d+, released on \d{4}-\d\d-\d\d, \d+ \w+ ago, in /)
  t.match(fresh.output, /ok +storage: none yet/)
  t.match(fresh.output, /All checks passed\.$/)
  t.strictSame(await readdir(parent), [])
  t.equal(fresh.code, 0)
})

t.test('a database in DATA_DIR is not changed, and not opened in its place', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  const before = await folderState(DATA_DIR)
  const { code, output } = await runProcess({ DATA_DIR }, doctor)
  t.match(output, /ok +database: PostgreSQL \d+\.\d+ in DATA_DIR/)
  t.equal(code, 0)
  t.strictSame(await folderState(DATA_DIR), before)
  // Whoever opens it needs the right to create files.
  await chmod(join(DATA_DIR, 'postgresql', 'base', '5'), 0o500)
  t.match((await runUnprivileged({ DATA_DIR }, doctor)).output, /FAIL +database: EACCES/)
  await chmod(join(DATA_DIR, 'postgresql', 'base', '5'), 0o700)
})

t.test('the schema of an earlier development version fails', async (t) => {
  const environment = await environmentOfEarlierSchema(t)
  const before = await folderState(environment.DATA_DIR)
  const { code, output } = await runProcess(environment, doctor)
  t.match(output, new RegExp(`^FAIL +database: ${new SchemaUnknown().message}`, 'm'))
  t.equal(code, 1)
  t.strictSame(await folderState(environment.DATA_DIR), before)
})

t.test('a misspelled setting is a warning, here and at the start', async (t) => {
  const environment = { DATA_DIR: await temporaryFolder(t), HOST: '192.0.2.1', DATABASE_URI: 'x' }
  const warning = 'configuration: DATABASE_URI is not a setting, and is ignored. Did you mean DATABASE_URL?'
  t.match((await runProcess(environment, doctor)).output, `\nwarn   ${warning}\n`)
  t.match((await runProcess(environment)).output, `taskwright: ${warning.replace('configuration: ', '')}\n`)
})

t.test('a secret that cannot be used fails', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await writeFile(join(DATA_DIR, 'jwt-secret'), 'short', { mode: 0o600 })
  const { output } = await runProcess({ DATA_DIR }, doctor)
  t.match(output, /FAIL +folder: .*jwt-secret is damaged/)
})

t.test(
  'a port of another program fails here and at the start, one of the running service does not',
  async (t) => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const environment = { DATA_DIR: await temporaryFolder(t), PORT: String(port) }
    await copyTemplate(environment.DATA_DIR)
    const taken = new RegExp(
      `PORT ${port} is in use by another program .EADDRINUSE.\\. Stop that program, or choose another port`,
    )
    const found = await runProcess(environment, doctor)
    t.match(found.output, taken)
    t.equal(found.code, 1)
    const started = await runProcess(environment)
    t.match(started.output, taken)
    t.match(started.output, /"npm run doctor"/)
    t.notMatch(started.output, /^ +at /m, 'no stack')
    t.equal(started.code, 1)
    other.close()
    const metrics = { DATA_DIR: await temporaryFolder(t), METRICS_PORT: String(port) }
    await copyTemplate(metrics.DATA_DIR)
    await startProcess(t, environment)
    t.match((await runProcess(metrics)).output, new RegExp(`METRICS_${taken.source}`))
    t.match((await runProcess(metrics, doctor)).output, new RegExp(`METRICS_${taken.source}`))
    const running = await runProcess(environment, doctor)
    t.match(
      running.output,
      new RegExp(`ok +host: port ${port} of 127.0.0.1 is in use by the running service`),
    )
    t.equal(running.code, 0)
    const beside = await runProcess({ ...environment, DATA_DIR: await temporaryFolder(t) }, doctor)
    t.match(beside.output, taken, 'another Taskwright is another program')
    t.equal(beside.code, 1)
  },
)

t.test('too few files, and a disk whose reserve is not free, fail before anything exists', async (t) => {
  const limited = ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, doctor]
  const { PATH } = process.env
  const few = spawnSync('sh', limited, { env: { PATH, DATA_DIR: '/proc/nope' }, encoding: 'utf8' })
  t.match(few.stdout, /FAIL +open files: This user can open 64 files/)
  t.equal(few.status, 1)
  const parent = await temporaryFolder(t)
  const environment = { DATA_DIR: join(parent, 'data'), DISK_RESERVE_BYTES: String(2 ** 50) }
  const { code, output } = await runProcess(environment, doctor)
  t.match(output, /FAIL +storage: .*does not exceed DISK_RESERVE_BYTES/)
  t.equal(code, 1)
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

t.test('a wrong password, a missing database and missing migrations are reported', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl)
  const run = async (change: (url: URL) => void) => {
    const url = new URL(options.url)
    change(url)
    return runProcess({ DATA_DIR: await temporaryFolder(t), DATABASE_URL: url.href }, doctor)
  }
  t.match((await run((url) => (url.password = 'wrong'))).output, /password authentication failed/)
  t.match((await run((url) => (url.pathname = 'nothing'))).output, /"nothing" does not exist/)
  t.match((await run(() => undefined)).output, /0 migrations applied; the next start applies \d+/)
})

t.test('a newer schema passes; missing permissions and a read-only database fail', async (t) => {
  const { options } = await createTestDatabase(t)
  const { url } = options
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

  const later = 'const now = Date.now; Date.now = () => now() + 172_800_000'
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(later)}`
  t.match((await runProcess({ ...environment, NODE_OPTIONS }, doctor)).output, /clock is 2 days behind/)

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

t.test('a database that cannot be migrated fails here and at the start', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl)
  const sql = createClient(options)
  t.teardown(() => sql.end())
  const refused = async (url: string, reason: RegExp) => {
    const environment = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url }
    for (const program of [doctor, undefined]) {
      const { code, output } = await runProcess(environment, program)
      t.match(output, reason)
      t.equal(code, program === doctor ? 1 : 78)
      t.notMatch(output, /^ +at /m, 'no stack')
    }
  }
  const latin = `${new URL(options.url).pathname.slice(1)}_latin1`
  await sql.unsafe(
    `create database ${latin} encoding 'LATIN1' locale_provider libc locale 'C' template template0`,
  )
  t.teardown(() => dropOnServer(options.url, latin))
  await refused(options.url.replace(/[^/]+$/, latin), /encoding of the database is LATIN1 instead of UTF8/)

  await sql`create table sections (of text)`
  await refused(options.url, /has a table sections of another program/)
  await sql`drop table sections`

  await sql`revoke create on schema public from pg_database_owner, public`
  await refused(
    options.url,
    /lacks the permission\. Make the user the owner|permission denied for schema public\)\. Make the user the owner/,
  )
})
