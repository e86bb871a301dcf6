import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { freePort } from '../../../test/fixture/ports.ts'
import { type ServiceProcess, startProcess } from '../../../test/fixture/process.ts'
import { unreachedLimits } from '../../run/processes.ts'
import type { Teardown } from '../../run/run-to-end.ts'

/** An instance of the service with a fixed address. */
export interface Instance {
  readonly url: string
  /** Starts the current version, or another version by the path of its main.js. Resolves when it is ready. */
  start(program?: string): Promise<void>
  /** Resolves to the exit code, or null if the signal ended the process. */
  end(signal: NodeJS.Signals): Promise<number | null>
  /** The output since the last start. */
  output(): string
}

/** Settings of all instances. */
interface SharedSettings {
  readonly databaseUrl: string
  readonly readUrl: string
  readonly storageUrl: string
  readonly redisUrl: string
  /** The parent of the data folders. */
  readonly folder: string
}

/** Creates an instance without starting it. */
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

/** Creates the instances of a cluster without starting them. */
export const createInstances = async (
  t: Teardown,
  count: number,
  { databaseUrl, readUrl, storageUrl, redisUrl, folder }: SharedSettings,
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
        ...unreachedLimits,
        ...credentials(),
      }),
    ),
  )
}

/** The variables with the S3 credentials, read by the AWS SDK. */
const credentials = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].map((name) => [name, process.env[name] ?? '']),
  )
