import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { findBinaries } from '../../src/postgres/binaries.ts'
import { createDatabase, librariesFolder, postgresFolder } from '../../src/postgres/cluster.ts'
import { createLauncher } from '../../src/postgres/launch.ts'
import { runProgram } from '../../src/postgres/program.ts'
import { startPostgres } from '../../src/postgres/own-postgres.ts'
import { freePort } from '../../test/fixture/ports.ts'
import type { Teardown } from './run-to-end.ts'

/** A crash of the machine may lose what tests write. */
const fastSettings = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }

/**
 * Starts the PostgreSQL that the service would start, for the databases of all tests, in a new folder in `parent`. Resolves to the URL of
 * a user with the privilege CREATEDB and no others, so that tests run with the privileges of the service. A teardown stops and removes it.
 */
export const startTestServer = async (t: Teardown, parent: string): Promise<string> => {
  const dataDir = await mkdtemp(join(parent, 'taskwright-server-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const binaries = await findBinaries({ postgresBin: null, librariesFolder: librariesFolder(dataDir) })
  const launcher = await createLauncher(binaries)
  await createDatabase(dataDir, launcher, { info: () => undefined, warn: console.error })
  const folder = postgresFolder(dataDir)
  await runProgram(
    launcher,
    'postgres',
    ['--single', '-D', folder, '-c', 'log_line_prefix=', 'template1'],
    'alter role taskwright createdb\n',
  )
  await writeFile(join(folder, 'pg_hba.conf'), 'host all taskwright 127.0.0.1/32 scram-sha-256\n')
  const port = await freePort()
  const network = { listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: '' }
  const { connection, stop } = await startPostgres({
    dataDir,
    binaries,
    workers: 1,
    // Tests make it refuse connections.
    log: { info: () => undefined, warn: (line) => line.startsWith('PostgreSQL:') || console.error(line) },
    overrides: { ...fastSettings, ...network, max_connections: '300' },
  })
  t.teardown(stop)
  const url = new URL(connection.url)
  url.port = String(port)
  return url.href
}

/**
 * Creates a migrated database on a server, which is never changed: copying it takes a tenth of the time of migrating another. Resolves to
 * its name. A teardown drops it.
 */
export const createTemplate = async (t: Teardown, serverUrl: string): Promise<string> => {
  const name = `template_${randomBytes(8).toString('hex')}`
  // Without the statement timeout of the service.
  const server = createClient({ url: serverUrl }, { connection: {} })
  t.teardown(() => server.end())
  await server.unsafe(`create database ${name}`)
  t.teardown(() => server.unsafe(`drop database ${name}`))
  const url = new URL(serverUrl)
  url.pathname = name
  const template: ServerConnection = { url: url.href }
  await migrate(template)
  // A database is not copied while a session uses it, such as one of autovacuum.
  await server.unsafe(`alter database ${name} allow_connections false`)
  return name
}
