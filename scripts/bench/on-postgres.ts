import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withPostgres } from '../postgres.ts'
import type { Teardown } from '../run-to-end.ts'
import { type Server, service, startServer } from './processes.ts'

/** Runs `measure` on the service with a new PostgreSQL server, on all processors and without rate limits. */
export const onPostgres = async (
  t: Teardown,
  measure: (server: Server, databaseUrl: string) => Promise<void>,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await withPostgres(async (databaseUrl) => {
    const environment = {
      DATABASE_URL: databaseUrl,
      DATA_DIR: join(folder, 'data'),
      RATE_LIMIT: 'off',
      LOG_LEVEL: 'error',
      ...settings,
    }
    await measure(await startServer(t, { program: service, environment, core: null, folder }), databaseUrl)
  })
}
