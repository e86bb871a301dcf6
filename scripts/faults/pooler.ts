import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '../../src/db/engine/connection.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { findCommand, runAttached, skip } from '../run/commands.ts'
import { findIdentity, giveTo } from '../run/postgres.ts'
import { startProgram } from '../run/processes.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'
import { temporaryRoot } from '../run/temporary-root.ts'

/**
 * Runs test files, by default those that use the database in most ways, with PgBouncer in front of the server of DATABASE_URL,
 * configured as described in docs/operations/install.md:
 *
 *     node scripts/run/postgres.ts --fast -- node scripts/faults/pooler.ts [file...]
 */

const testFiles: readonly string[] = [
  'test/handlers/tasks.ts',
  'test/handlers/task-lists.ts',
  'test/handlers/task-batch.ts',
  'test/handlers/event-stream.ts',
  'test/handlers/webhooks.ts',
  'test/handlers/uploads.ts',
  'test/auth/tokens.ts',
  'test/db/engine/migrate.ts',
  'test/process/server.ts',
  'test/process/stop.ts',
  'test/crash.ts',
]

const tests = fileURLToPath(new URL('../run/test.ts', import.meta.url))

/** Milliseconds. */
const deadline = 30 * 60_000

/** 1.21 is the first version that supports prepared statements in transaction mode. */
const minMinor = 21

/** Server connections for each database: fewer than the client connections of one instance, so that statements share them. */
const poolSize = 4

export interface Pooler {
  readonly program: string
  readonly version: string
}

/** Finds PgBouncer. Returns the reason if it is not installed or too old. */
export const findPooler = (): Pooler | string => {
  const program = findCommand('pgbouncer')
  if (program === null) return 'PgBouncer is not installed'
  const text = execFileSync(program, ['--version'], { encoding: 'utf8' })
  const [, version = '', major, minor] = /PgBouncer ((\d+)\.(\d+)\S*)/.exec(text) ?? []
  const isSupported = Number(major) > 1 || (Number(major) === 1 && Number(minor) >= minMinor)
  return isSupported ? { program, version } : `PgBouncer ${version} is older than 1.${minMinor}`
}

/** Starts PgBouncer in front of a server. Resolves to the URL of the database through PgBouncer. */
export const startPooler = async (t: Teardown, { program }: Pooler, serverUrl: string): Promise<string> => {
  const url = new URL(serverUrl)
  const folder = await mkdtemp(join(temporaryRoot(), 'taskwright-pooler-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const port = await freePort()
  const users = join(folder, 'users.txt')
  const configuration = join(folder, 'pgbouncer.ini')
  await writeFile(users, `"${url.username}" "${url.password}"\n`, { mode: 0o600 })
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    pool_mode: 'transaction',
    default_pool_size: poolSize,
    max_client_conn: 1_000,
    ignore_startup_parameters: 'statement_timeout,jit',
    log_connections: 0,
    log_disconnections: 0,
    // Each test uses its own database, and PgBouncer keeps the idle connections of a database that is no longer used.
    server_idle_timeout: 2,
    max_prepared_statements: 200,
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
  const databases = `* = host=${url.hostname} port=${url.port}`
  await writeFile(configuration, `[databases]\n${databases}\n\n[pgbouncer]\n${lines.join('\n')}\n`)

  const identity = findIdentity()
  await giveTo(identity, folder, users, configuration)
  const log = join(folder, 'log')
  const isReady = async () => (await readFile(log, 'utf8')).includes('process up')
  await startProgram(t, [program, configuration], { ...identity, cwd: folder, log, isReady })
  url.port = String(port)
  return url.href
}

/** Sets for the role the session parameters that PgBouncer ignores. */
export const setForRole = async (url: string): Promise<void> => {
  const sql = createClient({ kind: 'server', url })
  try {
    await sql`alter role current_user set statement_timeout = '8s'`
    await sql`alter role current_user set jit = off`
  } finally {
    await sql.end()
  }
}

const main = async (t: Teardown): Promise<void> => {
  const named = process.argv.slice(2)
  const serverUrl = process.env.DATABASE_URL
  if (serverUrl === undefined) throw new Error('DATABASE_URL is not set')
  const pooler = findPooler()
  if (typeof pooler === 'string') return skip(pooler)
  console.log(`pooler: PgBouncer ${pooler.version}`)
  await setForRole(serverUrl)
  const files = named.length > 0 ? named : testFiles
  process.exitCode = await runAttached(t, [process.execPath, tests, ...files], {
    DATABASE_URL: await startPooler(t, pooler, serverUrl),
  })
}

if (import.meta.main) await runToEnd('pooler', deadline, main)
