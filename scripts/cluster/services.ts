import { randomBytes } from 'node:crypto'
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../test/fixture/ports.ts'
import { type ServiceProcess, startProcess } from '../../test/fixture/process.ts'
import type { Teardown } from '../run-to-end.ts'

/** An instance of the service, always at the same address. */
export interface Instance {
  readonly url: string
  /** Starts this version, or another one by the path of its main.js; resolves when it is ready. */
  start(program?: string): Promise<void>
  /** Resolves to the exit code, null after a kill. */
  end(signal: NodeJS.Signals): Promise<number | null>
  /** Everything that it has printed since its start. */
  output(): string
}

/** What all instances share. */
interface Shared {
  readonly databaseUrl: string
  readonly readUrl: string
  readonly storageUrl: string
  readonly redisUrl: string
  /** The parent of their folders. */
  readonly folder: string
}

/** Limits that are counted in Redis and never reached. */
const limits = Object.fromEntries(
  ['SIGN_IN', 'REFRESH', 'API', 'UPLOAD', 'ANONYMOUS'].map((name) => [`RATE_LIMIT_${name}`, '1000000']),
)

/** Prepares instances, which are not started yet. */
export const createInstances = async (
  t: Teardown,
  count: number,
  { databaseUrl, readUrl, storageUrl, redisUrl, folder }: Shared,
): Promise<readonly Instance[]> => {
  const secret = randomBytes(48).toString('base64')
  const create = async (name: string): Promise<Instance> => {
    const port = await freePort()
    const environment = {
      PORT: String(port),
      DATA_DIR: join(folder, name),
      DATABASE_URL: databaseUrl,
      DATABASE_READ_URL: readUrl,
      STORAGE_URL: storageUrl,
      REDIS_URL: redisUrl,
      JWT_SECRET: secret,
      RATE_LIMIT: 'on',
      ...limits,
      ...credentials(),
    }
    let running: ServiceProcess | null = null
    return {
      url: `http://127.0.0.1:${port}`,
      async start(program) {
        running = await startProcess(t, environment, program === undefined ? {} : { program })
      },
      async end(signal) {
        return running === null ? null : running.end(signal)
      },
      output: () => running?.output() ?? '',
    }
  }
  const names = Array.from({ length: count }, (_, index) => `instance${index + 1}`)
  return Promise.all(names.map(create))
}

/** Where the AWS SDK finds the keys of the S3 server. */
const credentials = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].map((name) => [name, process.env[name] ?? '']),
  )

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The column that the next version adds. */
export const expandedColumn = 'mood'

/** Copies the service to a folder, with one more migration, which expands the schema. Resolves to the path of its main.js. */
export const createNextVersion = async (parent: string): Promise<string> => {
  const folder = join(parent, 'next')
  await mkdir(folder)
  for (const name of ['src', 'generated', 'openapi.yaml', 'package.json'])
    await cp(join(root, name), join(folder, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await addMigration(join(folder, 'src/db'))
  return join(folder, 'src/main.js')
}

interface Journal {
  readonly entries: readonly { readonly idx: number; readonly when: number }[]
}

const addMigration = async (folder: string): Promise<void> => {
  const migrations = join(folder, 'migrations')
  const journalFile = join(migrations, 'meta/_journal.json')
  const journal = JSON.parse(await readFile(journalFile, 'utf8')) as Journal
  const last = journal.entries.at(-1)
  const idx = journal.entries.length
  const tag = `${String(idx).padStart(4, '0')}_expand`
  const added = { idx, version: '7', when: (last?.when ?? 0) + 1, tag, breakpoints: true }
  await writeFile(journalFile, JSON.stringify({ ...journal, entries: [...journal.entries, added] }))
  const sql = `alter table tasks add column ${expandedColumn} text default 'calm' not null;`
  await writeFile(join(migrations, `${tag}.sql`), sql)
  const routinesFile = join(folder, 'routines.sql')
  const routines = await readFile(routinesFile, 'utf8')
  const raised = routines.replace(
    /^-- Revision (\d+)/,
    (_, revision) => `-- Revision ${Number(revision) + 1}`,
  )
  await writeFile(routinesFile, raised)
}
