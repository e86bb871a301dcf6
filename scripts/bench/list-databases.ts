import type postgres from 'postgres'
import type { Database } from '../../src/db/engine/client.ts'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'

/** Opens a database without a statement timeout, so that slow statements are measured, too. */
export const openWithoutTimeout = (connection: ServerConnection): Database => {
  const settings = { statement_timeout: 0, timezone: 'UTC', jit: 'off' }
  const client = createClient(connection, { connection: settings })
  return {
    run: (text, values, mode) =>
      client.unsafe<Record<string, unknown>[]>(text, values as never[], { prepare: mode !== 'once' }),
    transaction: () => Promise.reject(new Error('The benchmark has no transactions')),
    listen: () => undefined,
    pending: () => 0,
    close: () => client.end(),
  }
}

interface Seeded {
  readonly name: string
  readonly seed: (client: postgres.Sql) => Promise<void>
}

/** The database with this name on a server. It is created and seeded if missing. */
export const seededDatabase = async (url: string, { name, seed }: Seeded): Promise<ServerConnection> => {
  const own = new URL(url)
  own.pathname = `/${name}`
  const connection: ServerConnection = { kind: 'server', url: own.href }
  const admin = createClient({ kind: 'server', url })
  const [known] = await admin`select from pg_database where datname = ${name}`
  if (known === undefined) await admin.unsafe(`create database ${name}`)
  await admin.end()
  await migrate(connection)
  const seeder = createClient(connection, { connection: { statement_timeout: 0 } })
  const [task] = await seeder`select from tasks limit 1`
  if (task === undefined) {
    const start = performance.now()
    await seed(seeder)
    console.log(`${name} seeded in ${((performance.now() - start) / 1_000).toFixed(0)} s`)
  }
  await seeder.end()
  return connection
}
