import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../src/config/config.ts'
import type { ConnectionOptions } from '../src/db/engine/connection.ts'
import { startEmbedded } from '../src/db/engine/embedded.ts'
import type { Teardown } from './run-to-end.ts'

type Place = Pick<Config, 'databaseUrl' | 'dataDir'>

/** Whether there is a database in DATA_DIR. */
export const hasEmbedded = ({ dataDir }: Pick<Config, 'dataDir'>): boolean =>
  existsSync(join(dataDir, 'postgres'))

/**
 * The configured database, which has to be there already; an embedded one is stopped at the end.
 *
 * @throws FolderInUse while the service runs on it
 */
export const openConfigured = async (t: Teardown, place: Place): Promise<ConnectionOptions> => {
  if (place.databaseUrl !== null) return { kind: 'server', url: place.databaseUrl }
  if (!hasEmbedded(place)) throw new Error(`DATA_DIR ${place.dataDir} does not contain a database`)
  return openEmbedded(t, place)
}

/** The database in DATA_DIR, which is made if need be. */
export const openEmbedded = async (
  t: Teardown,
  { dataDir }: Pick<Config, 'dataDir'>,
): Promise<ConnectionOptions> => {
  const log = { info: console.error, warn: console.error }
  const embedded = await startEmbedded({ dataDir, log, onFailure: endWith })
  t.teardown(() => embedded.close())
  return embedded.connection
}

/** A database that is lost cannot be closed either. */
const endWith = (error: Error): never => {
  console.error(error.message)
  process.exit(2)
}
