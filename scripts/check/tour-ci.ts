import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { runAttached } from '../run/commands.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Starts the service in a new folder and runs the tour against it, then stops it, restarts it with the same data and stops it again.
 * Processes and the folder are always removed.
 */

/** Milliseconds. */
const deadline = 180_000

const tour = fileURLToPath(new URL('tour.ts', import.meta.url))

const runTour = async (t: Teardown, url: string): Promise<void> => {
  const code = await runAttached(t, [process.execPath, tour, url])
  if (code !== 0) throw new Error(`The tour exited with ${code}`)
}

const start = async (t: Teardown, dataDir: string) => {
  const service = await startProcess(t, { DATA_DIR: dataDir })
  return {
    url: service.url,
    // These responses do not count towards the contract coverage of the tests.
    client: createClient(service.url, () => undefined),
    async stop() {
      const code = await service.end('SIGTERM')
      if (code !== 0) throw new Error(`The service exited with ${code} instead of 0:\n${service.output()}`)
    },
  }
}

const run = async (t: Teardown): Promise<void> => {
  const dataDir = await temporaryFolder(t)
  const first = await start(t, dataDir)
  console.log('--- Tour of a new installation\n')
  await runTour(t, first.url)
  const { email, password, id } = await first.client.register('keeper')
  console.log('\n--- Tour of an installation that has an administrator\n')
  await runTour(t, first.url)
  await first.stop()

  const second = await start(t, dataDir)
  const { body } = await second.client.expect('login', 200, { body: { email, password } })
  if (body.user.id !== id) throw new Error('The id of the account changed after the restart')
  await second.stop()
  console.log('\n--- Stopped, restarted with the same data and stopped again without errors')
}

await runToEnd('tour', deadline, run)
