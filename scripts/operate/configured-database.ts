import type { Config } from '../../src/config/config.ts'
import { clusterFolder, hasCluster } from '../../src/db/engine/cluster-folder.ts'
import type { ConnectionOptions } from '../../src/db/engine/connection.ts'
import { lockFolder, startEmbedded } from '../../src/db/engine/embedded.ts'
import type { Teardown } from '../run/run-to-end.ts'
import { connectToService } from './running-service.ts'

type DatabaseConfig = Pick<Config, 'databaseUrl' | 'dataDir'>

/** Whether there is a database in DATA_DIR. @throws FolderUnusable */
export const hasEmbedded = ({ dataDir }: Pick<Config, 'dataDir'>): Promise<boolean> =>
  hasCluster(clusterFolder(dataDir))

/**
 * The configured database, which must exist. An embedded database is stopped by a teardown.
 *
 * @throws FolderInUse if the service uses the embedded database
 */
export const openConfigured = async (t: Teardown, config: DatabaseConfig): Promise<ConnectionOptions> => {
  if (config.databaseUrl !== null) return { kind: 'server', url: config.databaseUrl }
  if (!(await hasEmbedded(config)))
    throw new Error(
      `DATA_DIR ${config.dataDir} does not contain a database. Set DATA_DIR or DATABASE_URL as for the service, which creates its database when it starts`,
    )
  return openEmbedded(t, config)
}

/**
 * The embedded database in DATA_DIR. A lock is awaited silently, since a killed service leaves one that expires; if the folder stays
 * locked, the error says so.
 */
export const openEmbedded = async (
  t: Teardown,
  { dataDir }: Pick<Config, 'dataDir'>,
): Promise<ConnectionOptions> => {
  const service = await connectToService(dataDir)
  if (service !== null)
    throw new Error(
      `DATA_DIR ${dataDir} is in use by the running service (process ${service.pid}); stop the service first.`,
    )
  const log = { info: () => undefined, warn: console.error }
  const embedded = await startEmbedded({ dataDir, log, onFailure: exitWithError })
  t.teardown(() => embedded.close())
  return embedded.connection
}

/** Locks DATA_DIR until a teardown, so that no service can use it. */
export const lockData = async (t: Teardown, dataDir: string): Promise<void> =>
  t.teardown(await lockFolder(dataDir, { info: console.error, warn: console.error }, exitWithError))

/** Without teardowns: a failed database cannot be closed, and another process may use a folder whose lock was lost. */
export const exitWithError = (error: Error): never => {
  console.error(error.message)
  process.exit(2)
}
