import type { Config } from '../../src/config/config.ts'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { translateError } from '../../src/db/engine/errors.ts'
import { lockFolder } from '../../src/data-dir/lock.ts'
import { hasCode } from '../../src/data-dir/system-errors.ts'
import { findBinaries } from '../../src/postgres/binaries.ts'
import { connectionOf, hasDatabase, librariesFolder } from '../../src/postgres/cluster.ts'
import { startPostgres } from '../../src/postgres/own-postgres.ts'
import type { Teardown } from '../run/run-to-end.ts'

type DatabaseConfig = Pick<Config, 'databaseUrl' | 'dataDir' | 'postgresBin'>

/**
 * The configured database, which must exist: that of DATABASE_URL, or that in DATA_DIR, which the running service has started. Without a
 * service it is started here, under the lock of DATA_DIR, and a teardown stops it.
 *
 * @throws FolderInUse if a service or another command is starting or stopping it
 */
export const openConfigured = async (t: Teardown, config: DatabaseConfig): Promise<ServerConnection> => {
  if (config.databaseUrl !== null) return { url: config.databaseUrl }
  await expectDatabase(config)
  return (await connectToRunning(config.dataDir)) ?? startStopped(t, config)
}

/** @throws Error */
export const expectDatabase = async ({ dataDir }: Pick<Config, 'dataDir'>): Promise<void> => {
  if (await hasDatabase(dataDir)) return
  throw new Error(
    `DATA_DIR ${dataDir} does not contain a database. Set DATA_DIR or DATABASE_URL as for the service, which creates its database when it starts`,
  )
}

/**
 * The database in DATA_DIR, if it runs.
 *
 * @throws DatabaseUnavailable if it runs, but does not accept this connection
 */
export const connectToRunning = async (dataDir: string): Promise<ServerConnection | null> => {
  const connection = await connectionOf(dataDir).catch(() => null)
  if (connection === null) return null
  const client = createClient(connection)
  try {
    await client`select`
    return connection
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED')) return null
    throw translateError(error)
  } finally {
    await client.end({ timeout: 1 })
  }
}

/** Starts the database in DATA_DIR, for a command alone. A new folder gets a new database. */
export const startStopped = async (
  t: Teardown,
  { dataDir, postgresBin }: Pick<Config, 'dataDir' | 'postgresBin'>,
): Promise<ServerConnection> => {
  await hasDatabase(dataDir)
  await lockData(t, dataDir)
  const binaries = await findBinaries({ postgresBin, librariesFolder: librariesFolder(dataDir) })
  const log = { info: () => undefined, warn: console.error }
  const { connection, stop } = await startPostgres({ dataDir, binaries, workers: 0, log })
  t.teardown(stop)
  return connection
}

/** Locks DATA_DIR until a teardown, so that no service can use it. */
export const lockData = async (t: Teardown, dataDir: string): Promise<void> =>
  t.teardown(await lockFolder(dataDir, { info: console.error }, exitWithError))

/** Without teardowns: another process may use a folder whose lock was lost. */
const exitWithError = (error: Error): never => {
  console.error(error.message)
  process.exit(2)
}
