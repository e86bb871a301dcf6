import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
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

/** Prepares an instance, which is not started yet. */
export const createInstance = async (
  t: Teardown,
  environment: Readonly<Record<string, string>>,
): Promise<Instance> => {
  const port = await freePort()
  let running: ServiceProcess | null = null
  return {
    url: `http://127.0.0.1:${port}`,
    async start(program) {
      const options = program === undefined ? {} : { program }
      running = await startProcess(t, { PORT: String(port), ...environment }, options)
    },
    async end(signal) {
      return running === null ? null : running.end(signal)
    },
    output: () => running?.output() ?? '',
  }
}

/** Prepares the instances of a cluster. */
export const createInstances = async (
  t: Teardown,
  count: number,
  { databaseUrl, readUrl, storageUrl, redisUrl, folder }: Shared,
): Promise<readonly Instance[]> => {
  const secret = randomBytes(48).toString('base64')
  const names = Array.from({ length: count }, (_, index) => `instance${index + 1}`)
  return Promise.all(
    names.map((name) =>
      createInstance(t, {
        DATA_DIR: join(folder, name),
        DATABASE_URL: databaseUrl,
        DATABASE_READ_URL: readUrl,
        STORAGE_URL: storageUrl,
        REDIS_URL: redisUrl,
        JWT_SECRET: secret,
        RATE_LIMIT: 'on',
        ...limits,
        ...credentials(),
      }),
    ),
  )
}

/** Where the AWS SDK finds the keys of the S3 server. */
const credentials = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].map((name) => [name, process.env[name] ?? '']),
  )
