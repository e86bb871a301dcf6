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

/** Creates the instances of a cluster without starting them. `parent` is that of their data folders. */
export const createInstances = async (
  t: Teardown,
  count: number,
  parent: string,
  shared: Readonly<Record<string, string>>,
): Promise<readonly Instance[]> => {
  const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = process.env
  const environment = {
    ...shared,
    ...unreachedLimits,
    JWT_SECRET: randomBytes(48).toString('base64'),
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
  }
  const folders = Array.from({ length: count }, (_, index) => join(parent, `instance${index + 1}`))
  return Promise.all(folders.map((DATA_DIR) => createInstance(t, { ...environment, DATA_DIR })))
}
